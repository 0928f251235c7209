"""The tensors of the two pickles of an ELMoForManyLangs model, and the parameters of our modules that they are."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from elmo_model.bilm import DIRECTIONS
from elmo_model.manylangs.options import ManyLangsOptions

WORD_EMBED = "word_emb_layer.embedding.weight"
CHAR_EMBED = "char_emb_layer.embedding.weight"


def embedder_shapes(
    options: ManyLangsOptions, *, n_words: int | None, n_characters: int | None
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the tensors in `token_embedder.pkl`; the counts are None for what the model doesn't read."""
    embedder, width = options.embedder, options.lstm.projection_dim
    if n_words is not None:
        yield WORD_EMBED, (n_words, embedder.word_dim)
    if n_characters is not None:
        yield CHAR_EMBED, (n_characters, embedder.char_dim)
    for number, (bank_width, count) in enumerate(embedder.filters):
        yield f"convolutions.{number}.weight", (count, embedder.char_dim, bank_width)
        yield f"convolutions.{number}.bias", (count,)
    for number in range(embedder.n_highway):
        yield f"highways._layers.{number}.weight", (2 * embedder.n_filters, embedder.n_filters)
        yield f"highways._layers.{number}.bias", (2 * embedder.n_filters,)
    yield "projection.weight", (width, embedder.word_dim + embedder.n_filters)
    yield "projection.bias", (width,)


def encoder_shapes(options: ManyLangsOptions) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the tensors in `encoder.pkl`."""
    cells, width = options.lstm.dim, options.lstm.projection_dim
    for depth in range(options.lstm.n_layers):
        for way in DIRECTIONS:
            if options.encoder == "elmo":
                layer = f"{way}_layer_{depth}"
                yield f"{layer}.input_linearity.weight", (4 * cells, width)
                yield f"{layer}.state_linearity.weight", (4 * cells, width)
                yield f"{layer}.state_linearity.bias", (4 * cells,)
                yield f"{layer}.state_projection.weight", (width, cells)
            else:
                suffix = f"l{depth}" + ("" if way == "forward" else "_reverse")
                yield f"encoder.weight_ih_{suffix}", (4 * cells, 2 * cells if depth else width)
                yield f"encoder.weight_hh_{suffix}", (4 * cells, cells)
                yield f"encoder.bias_ih_{suffix}", (4 * cells,)
                yield f"encoder.bias_hh_{suffix}", (4 * cells,)
    if options.encoder == "lstm":
        yield "projection.weight", (width, cells)
        yield "projection.bias", (width,)


def embedder_state(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of a `ManyLangsTokenEncoder`, named as those of the whole model."""
    state = {}
    for name, tensor in tensors.items():
        if name == WORD_EMBED:
            state["word_embed"] = tensor
        elif name == CHAR_EMBED:
            state["char_embed"] = tensor
        elif name.startswith("highways."):
            _, _, number, kind = name.split(".")
            transform, gate = tensor.chunk(2)
            state[f"highways.{number}.transform.{kind}"] = transform
            # There the gate lets the input through, in ours the transform: sigmoid(-x) = 1 - sigmoid(x).
            state[f"highways.{number}.gate.{kind}"] = -gate
        else:
            state[name] = tensor
    return {f"token_encoder.{name}": tensor for name, tensor in state.items()}


def stacks_state(tensors: Mapping[str, Tensor], *, n_layers: int) -> dict[str, Tensor]:
    """The parameters of both stacks of a biLM."""
    state: dict[str, Tensor] = {}
    for depth in range(n_layers):
        for way in DIRECTIONS:
            state |= _layer_state(tensors, f"{way}_layer_{depth}.", f"{way}_layers.{depth}.")
    return state


def lstm_state(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of an `LstmEncoder`, its token encoder left out."""
    return {name.replace("encoder.", "lstm.", 1): tensor for name, tensor in tensors.items()}


def _layer_state(tensors: Mapping[str, Tensor], theirs: str, ours: str) -> dict[str, Tensor]:
    """The parameters of a `ProjectedLstm`."""
    matrices = [tensors[f"{theirs}{name}_linearity.weight"] for name in ("input", "state")]
    return {
        f"{ours}weight": _reordered(torch.cat(matrices, dim=1)),
        f"{ours}bias": _reordered(tensors[f"{theirs}state_linearity.bias"]),
        f"{ours}projection": tensors[f"{theirs}state_projection.weight"],
    }


def _reordered(rows: Tensor) -> Tensor:
    """Gate rows from the order input, forget, candidate, output to ours: input, candidate, forget, output."""
    input_gate, forget, candidate, output = rows.chunk(4)
    return torch.cat([input_gate, candidate, forget, output])
