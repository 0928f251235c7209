"""What the torch encoders share: choosing a device honestly, and torch's errors in the pipeline's terms."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from jobs.encoders.gpu_dealing import dealt_gpu
from pipeline.errors import ConfigError, DeviceLostError, EncoderOutOfMemoryError

_log = logging.getLogger(__name__)


def use_threads(threads: int | None) -> None:
    """Sets the cores that products are computed with, None for all, so that their number changes no bit of the results.

    MKL looks at its environment once, at the first product of a process, so this comes before it.
    """
    # Without it, MKL sums in another order for another number of threads.
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
    torch.set_num_threads(threads or os.cpu_count() or 1)


def available_device(device: str) -> str:
    """The torch device for `auto`, `cpu` or `cuda`; `auto` says which it took, several GPUs are dealt to processes.

    Raises:
        ConfigError: CUDA was asked for and cannot be used here.
    """
    if device == "auto":
        chosen = "cuda" if torch.cuda.is_available() else "cpu"
        _log.info("device auto: computing on %s", chosen)
        device = chosen
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device cuda: torch finds no usable CUDA device here; use --device cpu or auto")
    return (
        device if device == "cpu" or torch.cuda.device_count() < 2 else f"cuda:{dealt_gpu(torch.cuda.device_count())}"
    )


@contextmanager
def translated_errors() -> Iterator[None]:
    """Torch's out-of-memory and broken-device errors as the pipeline's.

    Raises:
        EncoderOutOfMemoryError: The block ran out of memory.
        DeviceLostError: The CUDA context is broken, so that whatever follows would fail as well.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise EncoderOutOfMemoryError(str(error)) from error
    except RuntimeError as error:
        message = str(error)
        # On the CPU torch raises a plain RuntimeError when an allocation fails.
        if "can't allocate memory" in message or "not enough memory" in message:
            raise EncoderOutOfMemoryError(message) from error
        if isinstance(error, torch.AcceleratorError) or "CUDA error" in message:
            raise DeviceLostError(message.splitlines()[0]) from error
        raise
