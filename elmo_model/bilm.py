"""The biLM: a token encoder and a stack of LSTM layers for each direction."""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from elmo_model.errors import VocabularyError
from elmo_model.kernels.interface import LayerKernel
from elmo_model.kernels.plain import PlainLayer
from elmo_model.lstm import LstmState, ProjectedLstm
from elmo_model.options import ElmoOptions, LstmOptions
from elmo_model.token_encoder import CharacterTokenEncoder, TokenEncoder, WordTokenEncoder
from elmo_model.vocabulary import Vocabulary

DIRECTIONS = ("forward", "backward")


class BiLm(nn.Module):
    """A bidirectional (or forward-only) language model without its softmax.

    Args:
        token_encoder: Makes the token vectors, of width `lstm.projection_dim`.
        lstm: Sizes, clips and residuals of the stacks.
        bidirectional: Whether there is a backward stack.
        project_states: Whether the layers have a projection; by default unless p == c.
        forget_bias: See `ProjectedLstm`.
    """

    def __init__(
        self,
        token_encoder: TokenEncoder,
        *,
        lstm: LstmOptions,
        bidirectional: bool = True,
        project_states: bool | None = None,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__()
        self.token_encoder = token_encoder
        self.lstm = lstm
        self.directions = DIRECTIONS if bidirectional else DIRECTIONS[:1]

        def stack(length: int) -> nn.ModuleList:
            return nn.ModuleList(
                ProjectedLstm(lstm, project=project_states, forget_bias=forget_bias) for _ in range(length)
            )

        self.forward_layers = stack(lstm.n_layers)
        self.backward_layers = stack(lstm.n_layers if bidirectional else 0)

    @property
    def options(self) -> ElmoOptions:
        """The options that describe this model."""
        encoder = self.token_encoder
        return ElmoOptions(
            lstm=self.lstm,
            char_cnn=encoder.options if isinstance(encoder, CharacterTokenEncoder) else None,
            bidirectional=len(self.directions) == 2,
        )

    def layer(self, depth: int, directions: Sequence[str] = DIRECTIONS) -> list[ProjectedLstm]:
        """The weights of LSTM layer `depth` (0 is the lowest) in those of the given directions that exist."""
        stacks = {"forward": self.forward_layers, "backward": self.backward_layers}
        return [cast(ProjectedLstm, stacks[name][depth]) for name in self.directions if name in directions]

    def plain_layers(self, directions: Sequence[str] = DIRECTIONS) -> list[PlainLayer]:
        """All layers, lowest first, computed by the plain definition."""
        return [PlainLayer(self.layer(depth, directions)) for depth in range(self.lstm.n_layers)]

    def zero_states(self, batch: int, directions: Sequence[str] = DIRECTIONS) -> list[list[LstmState]]:
        """States before the first token: for each layer, for each direction, of `batch` sentences."""
        return [
            [layer.zero_state(batch) for layer in self.layer(depth, directions)] for depth in range(self.lstm.n_layers)
        ]

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws the initial values of the original training program for all parts."""
        for part in (self.token_encoder, *self.forward_layers, *self.backward_layers):
            cast(Callable[..., None], part.reset_parameters)(generator)


def build_bilm(
    options: ElmoOptions,
    *,
    vocabulary: Vocabulary | None = None,
    project_tokens: bool | None = None,
    project_states: bool | None = None,
) -> BiLm:
    """A biLM of the given shape with all weights zero.

    Args:
        options: The shape.
        vocabulary: The words, for a model without a character encoder.
        project_tokens: See `CharacterTokenEncoder`.
        project_states: See `BiLm`.

    Raises:
        VocabularyError: If the model reads words and no vocabulary is given.
    """
    width = options.lstm.projection_dim
    encoder: TokenEncoder
    if options.char_cnn is not None:
        encoder = CharacterTokenEncoder(options.char_cnn, width=width, project=project_tokens)
    elif vocabulary is not None:
        encoder = WordTokenEncoder(vocabulary, width=width)
    else:
        raise VocabularyError("a model whose options have no char_cnn reads words: a vocabulary file is required")
    return BiLm(encoder, lstm=options.lstm, bidirectional=options.bidirectional, project_states=project_states)


def run_layers(
    layers: Sequence[LayerKernel],
    inputs: Sequence[Tensor],
    batch_sizes: Sequence[int],
    states: Sequence[Sequence[LstmState]],
    *,
    use_skip_connections: bool,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> Iterator[tuple[list[Tensor], list[LstmState]]]:
    """The outputs and final states of each layer in turn, lowest first.

    From the second layer on, with skip connections, a layer's output is its hidden state plus its input (the dropped
    one, in training). The residual is not part of the state.

    Args:
        layers: The layers, lowest first; give fewer to stop early.
        inputs: For each direction, packed token vectors (tokens, p), backward ones in reversed sentences.
        batch_sizes: See `elmo_model.kernels`.
        states: For each layer, for each direction, the state before the first token.
        use_skip_connections: Whether to add the residual.
        dropout: Applied to each layer's input, in training.

    Yields:
        For each direction, outputs (tokens, p), and for each direction the final state.
    """
    for depth, (layer, before) in enumerate(zip(layers, states, strict=True)):
        if dropout is not None:
            inputs = [dropout(rows) for rows in inputs]
        outputs, after = layer(inputs, batch_sizes, before)
        if use_skip_connections and depth > 0:
            # In place where nothing will ask for the hidden states: a batch of them is as large as a column.
            add = Tensor.add_ if torch.is_inference_mode_enabled() else Tensor.add
            outputs = [add(hidden, rows) for hidden, rows in zip(outputs, inputs, strict=True)]
        inputs = outputs
        yield outputs, after
