"""Matrix products with weights laid out once for the processor, by oneDNN through private operators of torch.

In float32 torch's own `F.linear` reaches about half of what oneDNN does on the same processor. The operators are
private and may go in any release of torch, so this is the only module that knows them, and `missing_operators` says
whether they are there.
"""

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

Linear = Callable[[Tensor], Tensor]


class MakeLinear(Protocol):
    """Makes a function from rows (rows, in) to `clip(rows @ weight.T + bias)` (rows, out)."""

    def __call__(self, weight: Tensor, bias: Tensor | None, *, clip: float | None) -> Linear:
        """The function, for weight (out, in) and bias (out,)."""
        ...


_EXPECTED_ROWS = 256  # a hint for the layout; products over other numbers of rows are as right


def missing_operators() -> str | None:
    """Why packed products can't be used here, or None if they can."""
    if not torch._C._has_mkldnn:
        return "this torch is built without oneDNN"
    for name in ("_reorder_linear_weight", "_linear_pointwise"):
        if not hasattr(torch.ops.mkldnn, name):
            return f"this torch has no operator mkldnn.{name}"
    return None


def packed_linear(weight: Tensor, bias: Tensor | None, *, clip: float | None = None) -> Linear:
    """A function from rows (rows, in) to `clip(rows @ weight.T + bias)` (rows, out), in the precision of the weight.

    Args:
        weight: (out, in), float32 or bfloat16; not needed any more afterwards.
        bias: (out,), or None.
        clip: Bound on the result, or None.
    """
    if missing_operators() is not None:
        return _unpacked(weight, bias, clip=clip)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _EXPECTED_ROWS)
    after = ("none", [], "") if clip is None else ("hardtanh", [-clip, clip], "")

    def linear(rows: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, *after)
        return product

    return linear


def _unpacked(weight: Tensor, bias: Tensor | None, *, clip: float | None) -> Linear:
    def linear(rows: Tensor) -> Tensor:
        product = F.linear(rows, weight, bias)
        return product if clip is None else product.clamp_(-clip, clip)

    return linear
