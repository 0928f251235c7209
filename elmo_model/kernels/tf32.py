"""Whether float32 products on a GPU may round their operands to TF32."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def tf32(*, allowed: bool) -> Iterator[None]:
    """Allows or forbids it for products and convolutions inside; torch by itself allows it for convolutions only."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
