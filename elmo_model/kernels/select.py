"""The choice of kernels for a model, a device and a precision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from elmo_model.bilm import BiLm
from elmo_model.errors import DeviceError
from elmo_model.kernels.batched import BatchedLayer
from elmo_model.kernels.char_cnn import PackedCharacters
from elmo_model.kernels.fused import FusedLayer
from elmo_model.kernels.int8_linear import int8_linear, missing_int8_operators
from elmo_model.kernels.interface import LayerKernel, free_weights
from elmo_model.kernels.packed_linear import MakeLinear, missing_operators, packed_linear
from elmo_model.kernels.plain import PlainLayer
from elmo_model.kernels.tokens import PlainTokens, TokenKernel
from elmo_model.kernels.workers import Workers
from elmo_model.lstm import ProjectedLstm
from elmo_model.token_encoder import CharacterTokenEncoder

Precision = Literal["float32", "tf32", "bfloat16", "float16", "int8"]
KernelName = Literal["auto", "plain"]

# What the products of a precision get and give, by type of device.
_DTYPES = {
    "cpu": {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.float32},
    "cuda": {
        "float32": torch.float32,
        "tf32": torch.float32,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
    },
}


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What computes a model.

    Attributes:
        tokens: The token encoder.
        layers: The LSTM layers, lowest first.
        workers: The threads that compute on a CPU, where kernels bring their own.
        conductor: The thread on which everything between kernels is done, if not on the caller's. Where kernels bring
            threads of their own, those of torch would hold the cores for a while after each operation.
        choice: Which kernels these are and why, for records.
    """

    tokens: TokenKernel
    layers: Sequence[LayerKernel]
    workers: Workers | None
    conductor: Workers | None
    choice: str


def require_precision(precision: Precision, *, kernel: KernelName, device_type: str) -> None:
    """Checks, without a model, that a kernel can compute in a precision on a device here.

    Args:
        precision: Of the operands of the LSTM products.
        kernel: `auto` or `plain`.
        device_type: `cpu` or `cuda`.

    Raises:
        DeviceError: If it can't; says what can be had.
    """
    if precision not in _DTYPES[device_type]:
        offered = ", ".join(_DTYPES[device_type])
        raise DeviceError(f"precision {precision!r} isn't available on {device_type}; use one of {offered}")
    if kernel == "plain" and precision != "float32":
        raise DeviceError(f"the plain kernel computes in float32 only, not in {precision}")
    if precision == "int8" and (reason := missing_int8_operators()) is not None:
        raise DeviceError(f"precision 'int8' isn't available: {reason}")


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
        consume: Whether to empty the model's weights as they are taken over, so that they aren't held twice.

    Raises:
        DeviceError: If the precision isn't available.
    """
    layers = [bilm.layer(level, directions) for level in range(depth)]
    require_precision(precision, kernel=kernel, device_type=device.type)
    tokens: TokenKernel = PlainTokens(bilm.token_encoder, device=device)
    if kernel == "plain":
        plain = [PlainLayer([part.to(device) for part in layer]) for layer in layers]
        return Kernels(tokens=tokens, layers=plain, workers=None, conductor=None, choice="plain: asked for")
    make: Callable[[Sequence[ProjectedLstm]], LayerKernel]
    dtype = _DTYPES[device.type][precision]
    workers = None
    if device.type == "cuda":
        make = partial(BatchedLayer, dtype=dtype, device=device, tf32=precision == "tf32", consume=consume)
        choice = f"batched, {precision}, CUDA graphs"
    else:
        workers = Workers(threads)
        missing = missing_operators()
        if missing is None and isinstance(bilm.token_encoder, CharacterTokenEncoder):
            tokens = PackedCharacters(bilm.token_encoder, workers=workers)
            if consume:
                free_weights(bilm.token_encoder)
        how = "oneDNN packed products" if missing is None else f"torch's own products, since {missing}"
        linear: MakeLinear = packed_linear
        if precision == "int8":
            linear, how = int8_linear, "oneDNN 8-bit products"
        make = partial(FusedLayer, dtype=dtype, workers=workers, linear=linear, consume=consume)
        choice = f"fused, {precision}, {how}"
    ready = [make(layer) for layer in layers]
    conductor = None if workers is None else Workers(1)
    return Kernels(tokens=tokens, layers=ready, workers=workers, conductor=conductor, choice=choice)
