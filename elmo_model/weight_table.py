"""The arrays of a weight file in the original layout, and the parameters of a biLM that they are."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo_model.options import TRAINING_CHARACTERS, CharCnnOptions, ElmoOptions


@dataclass(frozen=True, kw_only=True)
class StoredArray:
    """One array of the file.

    Attributes:
        names: Its path in the file; where the layouts differ, the one we write first.
        shape: Its shape in the file, where matrices are used as `x @ W`.
        parameter: The parameter's name in the biLM's state dict.
        to_parameter: From the stored to our orientation.
        to_stored: And back.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    parameter: str
    to_parameter: Callable[[Tensor], Tensor]
    to_stored: Callable[[Tensor], Tensor]


def stored_arrays(
    options: ElmoOptions, *, project_tokens: bool, project_states: bool, n_words: int | None = None
) -> Iterator[StoredArray]:
    """All arrays that a model of this shape reads; others in the file are ignored.

    Args:
        options: The shape.
        project_tokens: Whether the token encoder ends in a projection.
        project_states: Whether the LSTM layers do.
        n_words: Size of the vocabulary, for a model that reads words.
    """
    width = options.lstm.projection_dim
    if options.char_cnn is not None:
        yield from _character_arrays(options.char_cnn, width=width, project=project_tokens)
    elif n_words is not None:
        yield word_array(n_words, width)
    for number, direction in enumerate(options.directions):
        scope = f"RNN_{number}/" if options.bidirectional else ""
        yield from _lstm_arrays(options, scope, direction, project=project_states)


def word_array(n_words: int, width: int) -> StoredArray:
    """The table of word vectors."""
    return _as_it_is("embedding", (n_words, width), "token_encoder.embedding")


def _character_arrays(options: CharCnnOptions, *, width: int, project: bool) -> Iterator[StoredArray]:
    size = options.n_filters
    yield _as_it_is("char_embed", (TRAINING_CHARACTERS, options.embedding_dim), "token_encoder.char_embed")
    for number, (bank_width, count) in enumerate(options.filters):
        ours = f"token_encoder.convolutions.{number}"
        yield StoredArray(
            names=(f"CNN/W_cnn_{number}",),
            shape=(1, bank_width, options.embedding_dim, count),
            parameter=f"{ours}.weight",
            to_parameter=lambda stored: stored[0].permute(2, 1, 0),
            to_stored=lambda weight: weight.permute(2, 1, 0)[None],
        )
        yield _as_it_is(f"CNN/b_cnn_{number}", (count,), f"{ours}.bias")
    for number in range(options.n_highway):
        ours = f"token_encoder.highways.{number}"
        for name, linear in (("carry", "gate"), ("transform", "transform")):
            yield _transposed(f"CNN_high_{number}/W_{name}", (size, size), f"{ours}.{linear}.weight")
            yield _as_it_is(f"CNN_high_{number}/b_{name}", (size,), f"{ours}.{linear}.bias")
    if project:
        yield _transposed("CNN_proj/W_proj", (size, width), "token_encoder.projection.weight")
        yield _as_it_is("CNN_proj/b_proj", (width,), "token_encoder.projection.bias")


def _lstm_arrays(options: ElmoOptions, scope: str, direction: str, *, project: bool) -> Iterator[StoredArray]:
    cells, width, n_layers = options.lstm.dim, options.lstm.projection_dim, options.lstm.n_layers
    for layer in range(n_layers):
        groups = [f"{scope}RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
        if n_layers == 1:
            groups.append(f"{scope}RNN/LSTMCell")  # as bilm-tf's export of one-layer models leaves it
        ours = f"{direction}_layers.{layer}"
        yield _transposed([f"{group}/W_0" for group in groups], (2 * width, 4 * cells), f"{ours}.weight")
        yield _as_it_is([f"{group}/B" for group in groups], (4 * cells,), f"{ours}.bias")
        if project:
            yield _transposed([f"{group}/W_P_0" for group in groups], (cells, width), f"{ours}.projection")


def _as_it_is(names: str | list[str], shape: tuple[int, ...], parameter: str) -> StoredArray:
    return _stored(names, shape, parameter, torch.clone)


def _transposed(names: str | list[str], shape: tuple[int, ...], parameter: str) -> StoredArray:
    return _stored(names, shape, parameter, torch.t)


def _stored(
    names: str | list[str], shape: tuple[int, ...], parameter: str, convert: Callable[[Tensor], Tensor]
) -> StoredArray:
    return StoredArray(
        names=(names,) if isinstance(names, str) else tuple(names),
        shape=shape,
        parameter=parameter,
        to_parameter=convert,
        to_stored=convert,
    )
