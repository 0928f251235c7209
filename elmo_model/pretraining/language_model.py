"""The language model that is trained: the biLM with a softmax on top, over windows of text with carried state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from elmo_model.bilm import BiLm, run_layers
from elmo_model.kernels.training import WindowLayer
from elmo_model.kernels.training_encoder import encode_words
from elmo_model.lstm import LstmState
from elmo_model.pretraining.softmax import Softmax
from elmo_model.pretraining.streams import Window
from elmo_model.token_encoder import CharacterTokenEncoder, TokenEncoder
from elmo_model.vocabulary import Vocabulary

States = list[list[LstmState]]
"""Of one direction: for each layer, a list of its one state."""


@dataclass(frozen=True)
class WindowTensors:
    """A window of all directions, as the model reads it.

    Attributes:
        token_ids: What the token encoder reads of each distinct token, (types, ...), shortest words first.
        types: For each direction, which of them each token is, int64 (time * batch,), time leading.
        targets: For each direction, word ids, int64 (time * batch,), time leading.
        batch: Rows of the window.
    """

    token_ids: Tensor
    types: list[Tensor]
    targets: list[Tensor]
    batch: int


def window_tensors(
    windows: Sequence[Window], *, encoder: TokenEncoder, vocabulary: Vocabulary, device: torch.device | str = "cpu"
) -> WindowTensors:
    """The tensors of a window, given for each direction; unlisted words become the unknown word as targets only."""
    # Each distinct token is encoded once, whatever its place or direction.
    distinct = sorted(
        {token for window in windows for row in window.inputs for token in row},
        key=lambda t: (len(t.encode("utf-8", "ignore")), t),
    )
    number_of = {token: number for number, token in enumerate(distinct)}

    def time_major(rows: list[list[int]]) -> Tensor:
        return torch.from_numpy(np.array(rows, dtype=np.int64).T.reshape(-1)).to(device)

    return WindowTensors(
        token_ids=torch.from_numpy(encoder.token_ids(distinct)).to(device),
        types=[time_major([[number_of[token] for token in row] for row in window.inputs]) for window in windows],
        targets=[
            time_major([[vocabulary.id_of(token) for token in row] for row in window.targets]) for window in windows
        ],
        batch=len(windows[0].inputs),
    )


class LanguageModel(nn.Module):
    """A biLM and the softmax its directions share.

    Args:
        bilm: The model whose vectors are wanted in the end.
        softmax: The output layer.
        dropout: Rate of the dropout on each layer's input and on the top output, in training.
        product_dtype: Type of matrix products in training: float32, or bfloat16 with weights and states in float32.
    """

    def __init__(
        self, bilm: BiLm, softmax: Softmax, *, dropout: float = 0.0, product_dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.bilm = bilm
        self.softmax = softmax
        self.dropout = dropout
        self.product_dtype = product_dtype

    def zero_states(self, batch: int) -> list[States]:
        """For each direction, the state before any text."""
        return [self.bilm.zero_states(batch, (direction,)) for direction in self.bilm.directions]

    def token_vectors(self, token_ids: Tensor) -> Tensor:
        """Vectors of distinct tokens, (types, p)."""
        encoder = self.bilm.token_encoder
        if isinstance(encoder, CharacterTokenEncoder):
            return encode_words(encoder, token_ids, product_dtype=self.product_dtype)
        vectors: Tensor = encoder(token_ids)
        return vectors

    def top_outputs(
        self, direction: str, rows: Tensor, states: States, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, States]:
        """A direction's top outputs (time * batch, p), and the states after the window, which carry no gradient.

        Args:
            direction: `forward` or `backward`.
            rows: Token vectors in the order that direction reads them, (time * batch, p), time leading.
            states: Of that direction, before the window.
            generator: Of the random numbers for dropout.
        """
        lstm = self.bilm.lstm

        def drop(rows: Tensor) -> Tensor:
            if not self.training or not self.dropout:
                return rows
            return rows * torch.empty_like(rows).bernoulli_(1 - self.dropout, generator=generator).div_(
                1 - self.dropout
            )

        batch = len(states[0][0].cell)
        layers = [
            WindowLayer(self.bilm.layer(depth, (direction,)), product_dtype=self.product_dtype)
            for depth in range(lstm.n_layers)
        ]
        batch_sizes = [batch] * (len(rows) // batch)
        after: States = []
        outputs = run_layers(
            layers, [rows], batch_sizes, states, use_skip_connections=lstm.use_skip_connections, dropout=drop
        )
        for (top,), final in outputs:
            rows = top
            after.append(final)
        return drop(rows), after
