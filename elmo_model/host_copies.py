"""Bringing results from an accelerator while it computes further ones."""

import torch
from torch import Tensor


class HostCopies:
    """Copies of tensors in host memory, through page-locked memory where they come from a CUDA device.

    Args:
        device: Where the tensors are.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._copies: dict[str, Tensor] = {}

    def begin(self, name: str, rows: Tensor) -> None:
        """Begins to copy what the device has been told to compute; it goes on computing meanwhile."""
        if self._stream is None:
            self._copies[name] = rows
            return
        copy = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
        self._stream.wait_stream(torch.cuda.current_stream(rows.device))
        with torch.cuda.stream(self._stream):
            copy.copy_(rows, non_blocking=True)
        rows.record_stream(self._stream)  # its memory isn't given to others before the copy is made
        self._copies[name] = copy

    def finish(self) -> dict[str, Tensor]:
        """All copies by name, once they are complete."""
        if self._stream is not None:
            self._stream.synchronize()
        return self._copies
