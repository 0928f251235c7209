"""The learned weighted sum of a biLM's layers, the usual way to use them in a task."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

LayerNorm = Literal["bilm-tf", "allennlp"]
_EPSILON: dict[str, float] = {"bilm-tf": 1e-12, "allennlp": 1e-13}


class ScalarMix(nn.Module):
    """`gamma * sum_k softmax(raw)_k * layer_k`, with masked positions zero.

    With layer normalisation, each layer first becomes `(x - mean) / sqrt(variance + eps)`, where mean and variance are
    single numbers over all real positions of the batch and all features; a sentence's result then depends on its
    batch. The originals differ in what they count: bilm-tf the tokens, AllenNLP the tokens and both sentence
    boundaries. Stored features have no boundaries, so `"bilm-tf"` is the definition for them; `"allennlp"` wants layers
    and mask with the boundary rows (see `without_boundaries`).

    Args:
        n_layers: Layers to mix: L + 1 for a biLM of L LSTM layers.
        raw_weights: Initial weights **before** the softmax; all 0 by default, the plain mean.
        weights: Final weights instead, which must sum to 1; they stay as they are and aren't trained.
        gamma: Initial scale.
        trainable: Whether raw weights and gamma are trained.
        layer_norm: Whose layer normalisation, or None for none.
        dropout: Rate of the dropout on the result, in training mode.
    """

    def __init__(
        self,
        n_layers: int,
        *,
        raw_weights: Sequence[float] | None = None,
        weights: Sequence[float] | None = None,
        gamma: float = 1.0,
        trainable: bool = True,
        layer_norm: LayerNorm | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if raw_weights is not None and weights is not None:
            raise ValueError("give raw_weights (before the softmax) or weights (final), not both")
        for name, given in (("raw_weights", raw_weights), ("weights", weights)):
            if given is not None and len(given) != n_layers:
                raise ValueError(f"{name} has {len(given)} values for {n_layers} layers")
        if weights is not None and not math.isclose(sum(weights), 1.0, abs_tol=1e-6):
            raise ValueError(
                f"weights must sum to 1, but {list(weights)} sum to {sum(weights)}; "
                "values before the softmax are given as raw_weights"
            )
        if layer_norm is not None and layer_norm not in _EPSILON:
            raise ValueError(f"layer_norm is {layer_norm!r}; it must be one of {', '.join(_EPSILON)}, or None")
        self.n_layers = n_layers
        self.layer_norm = layer_norm
        self.dropout = nn.Dropout(dropout)
        self.gamma = nn.Parameter(torch.tensor(float(gamma)), requires_grad=trainable)
        self.raw_weights: nn.Parameter | None = None
        self.final_weights: Tensor | None
        if weights is None:
            raw = torch.zeros(n_layers) if raw_weights is None else torch.tensor(raw_weights, dtype=torch.float32)
            self.raw_weights = nn.Parameter(raw, requires_grad=trainable)
            self.register_buffer("final_weights", None)
        else:
            self.register_buffer("final_weights", torch.tensor(weights, dtype=torch.float32))

    def layer_weights(self) -> Tensor:
        """The weights the layers really get, (layers,), which sum to 1; gamma is apart."""
        if self.final_weights is not None:
            return self.final_weights
        assert self.raw_weights is not None
        return torch.softmax(self.raw_weights, dim=0)

    def penalty(self) -> Tensor:
        """The sum of squares of the raw weights, a scalar to add to a loss times a coefficient; 0 for final weights."""
        if self.raw_weights is None:
            return torch.zeros((), device=self.gamma.device)
        return self.raw_weights.square().sum()

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """The mix, float32 (batch, tokens, width).

        Args:
            layers: Stacked layers (batch, layers, tokens, width), of any float type.
            mask: True at real positions (batch, tokens).

        Raises:
            ValueError: If the shapes don't fit each other or the number of layers.
        """
        if layers.dim() != 4 or layers.shape[1] != self.n_layers:
            raise ValueError(
                f"layers have shape {tuple(layers.shape)}; "
                f"this mix wants (batch, {self.n_layers} layers, tokens, width)"
            )
        if mask.shape != (layers.shape[0], layers.shape[2]):
            raise ValueError(f"mask has shape {tuple(mask.shape)}; the layers ask for (batch, tokens)")
        real = mask.bool()[:, None, :, None]
        layers = layers.float().masked_fill(~real, 0.0)
        if self.layer_norm is not None:
            layers = _normalised(layers, real, epsilon=_EPSILON[self.layer_norm])
        mixed = self.gamma * torch.einsum("l,bltw->btw", self.layer_weights(), layers)
        dropped: Tensor = self.dropout(mixed)
        return dropped


def without_boundaries(vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (batch, tokens, width) and mask (batch, tokens) without the first and last real row of each sentence.

    Args:
        vectors: Vectors with boundaries (batch, tokens + 2, width).
        mask: True at real positions, boundaries included (batch, tokens + 2).
    """
    inner = mask.bool()[:, 2:]  # a sentence's last real position, its end mark, falls away with the shift by two
    return vectors[:, 1:-1].masked_fill(~inner[:, :, None], 0.0), inner


def _normalised(layers: Tensor, real: Tensor, *, epsilon: float) -> Tensor:
    """Layers (batch, layers, tokens, width), each with mean 0 and variance 1 over its real values, and 0 elsewhere."""
    count = (real.sum() * layers.shape[3]).clamp(min=1)
    mean = layers.sum(dim=(0, 2, 3), keepdim=True) / count
    centred = (layers - mean).masked_fill(~real, 0.0)
    variance = centred.square().sum(dim=(0, 2, 3), keepdim=True) / count
    return centred / torch.sqrt(variance + epsilon)
