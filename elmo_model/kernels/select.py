"""The choice of a kernel for a model, a device and a precision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from elmo_model.bilm import BiLm
from elmo_model.errors import DeviceError
from elmo_model.kernels.interface import LayerKernel
from elmo_model.kernels.plain import PlainLayer

Precision = Literal["float32", "bfloat16", "int8"]
KernelName = Literal["auto", "plain"]


@dataclass(frozen=True, kw_only=True)
class ReadyLayers:
    """LSTM layers ready to compute.

    Attributes:
        layers: Lowest first.
        choice: Which kernel was taken and why, for records.
    """

    layers: Sequence[LayerKernel]
    choice: str


def ready_layers(
    bilm: BiLm,
    *,
    depth: int,
    directions: Sequence[str],
    device: torch.device,
    precision: Precision,
    kernel: KernelName,
) -> ReadyLayers:
    """The lowest `depth` layers of a model in the given directions.

    Raises:
        DeviceError: If there is no kernel for this precision on this device.
    """
    if precision != "float32":
        raise DeviceError(f"precision {precision!r} isn't available on {device.type}; use float32")
    layers = [PlainLayer([layer.to(device) for layer in bilm.layer(level, directions)]) for level in range(depth)]
    return ReadyLayers(layers=layers, choice="plain: asked for" if kernel == "plain" else "plain: the only kernel")
