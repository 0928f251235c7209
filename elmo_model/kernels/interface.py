"""The seam between the biLM and the ways to compute its layers."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from elmo_model.lstm import LstmState


class LayerKernel(Protocol):
    """One LSTM layer in all its directions, made ready for computing.

    The directions read the same sentences, each in its own order, and so share `batch_sizes`.
    """

    def __call__(
        self, inputs: Sequence[Tensor], batch_sizes: Sequence[int], states: Sequence[LstmState]
    ) -> tuple[list[Tensor], list[LstmState]]:
        """The layer's hidden states and the state after each sentence's last token.

        Args:
            inputs: For each direction, packed rows (tokens, p).
            batch_sizes: Sentences that have a token at each position; never rising.
            states: For each direction, the state before the first token; `batch_sizes[0]` rows.

        Returns:
            For each direction, hidden states (tokens, p) in the order of the input, without any residual; and for each
            direction the final state, one row for each sentence.
        """
        ...


def free_weights(*modules: nn.Module) -> None:
    """Frees the weights of modules, whose values are kept elsewhere."""
    for module in modules:
        for parameter in module.parameters():
            parameter.data = torch.empty(0)
