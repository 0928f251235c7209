"""The language model that is trained: the biLM with a softmax on top, over windows of text with carried state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from elmo_model.bilm import BiLm, run_layers
from elmo_model.characters import BEGIN_SENTENCE, END_SENTENCE
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
        starts: For each direction, where sentences start, bool (time * batch,), time leading.
        batch: Rows of the window.
    """

    token_ids: Tensor
    types: list[Tensor]
    targets: list[Tensor]
    starts: list[Tensor]
    batch: int

    def to(self, device: torch.device | str) -> WindowTensors:
        """The same on a device."""
        return WindowTensors(
            token_ids=self.token_ids.to(device),
            types=[types.to(device) for types in self.types],
            targets=[targets.to(device) for targets in self.targets],
            starts=[starts.to(device) for starts in self.starts],
            batch=self.batch,
        )


def window_tensors(windows: Sequence[Window], *, encoder: TokenEncoder, vocabulary: Vocabulary) -> WindowTensors:
    """The tensors of a window, given for each direction; unlisted words become the unknown word as targets only."""
    # Each distinct token is encoded once, whatever its place or direction.
    distinct = sorted({token for window in windows for row in window.inputs for token in row}, key=_bytes_and_spelling)
    number_of = {token: number for number, token in enumerate(distinct)}
    batch = len(windows[0].inputs)

    def time_major(rows: list[list[str]], numbered: Callable[[str], int]) -> Tensor:
        numbers = np.fromiter(map(numbered, chain.from_iterable(rows)), np.int64)
        return torch.from_numpy(numbers.reshape(batch, -1).T.reshape(-1))

    types = [time_major(window.inputs, number_of.__getitem__) for window in windows]
    # The mark after a sentence is never an input, so that a boundary among the inputs starts one.
    marks = torch.tensor([token in (BEGIN_SENTENCE, END_SENTENCE) for token in distinct])
    return WindowTensors(
        token_ids=torch.from_numpy(encoder.token_ids(distinct)),
        types=types,
        targets=[time_major(window.targets, vocabulary.id_of) for window in windows],
        starts=[marks[own] for own in types],
        batch=batch,
    )


def _bytes_and_spelling(token: str) -> tuple[int, str]:
    return len(token.encode("utf-8", "ignore")), token


class LanguageModel(nn.Module):
    """A biLM and the softmax its directions share.

    Args:
        bilm: The model whose vectors are wanted in the end.
        softmax: The output layer.
        dropout: Rate of the dropout on each layer's input and on the top output, in training.
        product_dtype: Type of matrix products in training: float32, or bfloat16 with weights and states in float32.
        carry_state: Whether a sentence starts from the state that the one before it in its row has left.
    """

    def __init__(
        self,
        bilm: BiLm,
        softmax: Softmax,
        *,
        dropout: float = 0.0,
        product_dtype: torch.dtype = torch.float32,
        carry_state: bool = True,
    ) -> None:
        super().__init__()
        self.bilm = bilm
        self.softmax = softmax
        self.dropout = dropout
        self.product_dtype = product_dtype
        self.carry_state = carry_state
        self._layers: dict[tuple[str, torch.dtype, torch.device], list[WindowLayer]] = {}

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
        self,
        direction: str,
        rows: Tensor,
        states: States,
        *,
        starts: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, States]:
        """A direction's top outputs (time * batch, p), and the states after the window, which carry no gradient.

        Args:
            direction: `forward` or `backward`.
            rows: Token vectors in the order that direction reads them, (time * batch, p), time leading.
            states: Of that direction, before the window.
            starts: Where a row starts from the zero state, bool (time * batch,); None for nowhere.
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
        keep = None if starts is None else (~starts).to(rows.dtype).view(-1, batch, 1)
        layers = [partial(layer, keep=keep) for layer in self._window_layers(direction)]
        batch_sizes = [batch] * (len(rows) // batch)
        after: States = []
        outputs = run_layers(
            layers,
            [rows],
            batch_sizes,
            states,
            use_skip_connections=lstm.use_skip_connections,
            dropout=drop,
        )
        for (top,), final in outputs:
            rows = top
            after.append(final)
        return drop(rows), after

    def _window_layers(self, direction: str) -> list[WindowLayer]:
        key = direction, self.product_dtype, self.softmax.weight.device
        if key not in self._layers:
            self._layers[key] = [
                WindowLayer(self.bilm.layer(depth, (direction,)), product_dtype=self.product_dtype)
                for depth in range(self.bilm.lstm.n_layers)
            ]
        return self._layers[key]
