"""The choice of kernels for a model, a device and a precision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from elmo_model.bilm import BiLm
from elmo_model.errors import DeviceError
from elmo_model.kernels.char_cnn import PackedCharacters
from elmo_model.kernels.fused import FusedLayer
from elmo_model.kernels.interface import LayerKernel
from elmo_model.kernels.packed_linear import missing_operators
from elmo_model.kernels.plain import PlainLayer
from elmo_model.kernels.tokens import PlainTokens, TokenKernel
from elmo_model.kernels.workers import Workers
from elmo_model.token_encoder import CharacterTokenEncoder

Precision = Literal["float32", "bfloat16"]
KernelName = Literal["auto", "plain"]

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What computes a model.

    Attributes:
        tokens: The token encoder.
        layers: The LSTM layers, lowest first.
        choice: Which kernels these are and why, for records.
    """

    tokens: TokenKernel
    layers: Sequence[LayerKernel]
    choice: str


def choose_kernels(
    bilm: BiLm,
    *,
    depth: int,
    directions: Sequence[str],
    device: torch.device,
    precision: Precision,
    kernel: KernelName,
    threads: int,
    consume: bool,
) -> Kernels:
    """The kernels for the token encoder and the lowest `depth` layers of a model in the given directions.

    Args:
        bilm: The model.
        depth: Layers needed.
        directions: Directions needed.
        device: Where to compute.
        precision: Of the operands of the LSTM products.
        kernel: `auto` for the fastest, or `plain`.
        threads: Threads to compute with, on a CPU, by a kernel that brings its own.
        consume: Whether to empty the model's LSTM weights as they are taken over, so that they aren't held twice.

    Raises:
        DeviceError: If the precision isn't available.
    """
    layers = [bilm.layer(level, directions) for level in range(depth)]
    if precision not in _DTYPES:
        raise DeviceError(f"precision {precision!r} isn't available; use {' or '.join(_DTYPES)}")
    if kernel == "plain" or device.type != "cpu":
        if precision != "float32":
            raise DeviceError(f"the plain kernel computes in float32 only, not in {precision}")
        return Kernels(
            tokens=PlainTokens(bilm.token_encoder, device=device),
            layers=[PlainLayer([part.to(device) for part in layer]) for layer in layers],
            choice="plain: asked for" if kernel == "plain" else f"plain: no other for {device.type}",
        )
    workers = Workers(threads)
    missing = missing_operators()
    tokens: TokenKernel = PlainTokens(bilm.token_encoder, device=device)
    if missing is None and isinstance(bilm.token_encoder, CharacterTokenEncoder):
        tokens = PackedCharacters(bilm.token_encoder, workers=workers)
    ready: list[LayerKernel] = []
    for layer in layers:
        ready.append(FusedLayer(layer, dtype=_DTYPES[precision], workers=workers))
        for parameter in (parameter for part in layer for parameter in part.parameters()):
            if consume:
                parameter.data = torch.empty(0)
    how = "oneDNN packed products" if missing is None else f"torch's own products, since {missing}"
    return Kernels(tokens=tokens, layers=ready, choice=f"fused, {precision}, {how}")
