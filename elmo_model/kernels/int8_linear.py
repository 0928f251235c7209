"""Matrix products in 8-bit integers: weights with one scale per output, operands with one per row.

A scale per row, not per product, keeps a sentence's values independent of the sentences beside it. Like those of
`packed_linear`, the operators are private to torch, and only this module knows them.
"""

import torch
from torch import Tensor

from elmo_model.kernels.packed_linear import Linear

_LARGEST = 127


def missing_int8_operators() -> str | None:
    """Why products in 8 bits can't be used here, or None if they can."""
    for name in ("qlinear_prepack", "qlinear_pointwise"):
        if not hasattr(torch.ops.onednn, name):
            return f"this torch has no operator onednn.{name}"
    if not torch.cpu._is_vnni_supported():
        return "the processor has no 8-bit dot products (VNNI), without which sums of them saturate"
    return None


def int8_linear(weight: Tensor, bias: Tensor | None, *, clip: float | None = None) -> Linear:
    """A function from float32 rows (rows, in) to about `clip(rows @ weight.T + bias)`, float32 (rows, out).

    Args:
        weight: (out, in), float32; not needed any more afterwards.
        bias: (out,), or None.
        clip: Bound on the result, or None.
    """
    outputs = len(weight)
    scales = weight.abs().amax(dim=1).div_(_LARGEST).clamp_(min=torch.finfo(torch.float32).tiny)
    packed = torch.ops.onednn.qlinear_prepack((weight / scales[:, None]).round_().to(torch.int8), None)
    zero_points = torch.zeros(outputs, dtype=torch.int64)
    offset = torch.zeros(outputs) if bias is None else bias.clone()

    def linear(rows: Tensor) -> Tensor:
        scale = rows.abs().amax(dim=1, keepdim=True).div_(_LARGEST).clamp_(min=torch.finfo(torch.float32).tiny)
        quantized = torch.div(rows, scale).round_().add_(_LARGEST + 1).to(torch.uint8)
        sums: Tensor = torch.ops.onednn.qlinear_pointwise(
            quantized, 1.0, _LARGEST + 1, packed, scales, zero_points, None, 1.0, 0, torch.float32, "none", [], ""
        )
        product = torch.addcmul(offset, sums, scale, out=sums)
        return product if clip is None else product.clamp_(-clip, clip)

    return linear
