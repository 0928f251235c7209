"""The part that taggers and classifiers share: word vectors, ELMo in its places, and a biLSTM over them."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_model.scalar_mix import ScalarMix
from jobs.tasks.batches import TaskBatch
from jobs.tasks.words import StaticVectors, WordIndex
from pipeline.config import check_choice
from pipeline.errors import ConfigError

Inject = Literal["none", "input", "output", "both"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The sentence encoder of a task model.

    Attributes:
        inject: Where ELMo enters: beside the word vectors, beside the output of the RNN, both (each with a mix of its
            own), or nowhere.
        layer_penalty: The coefficient of the L2 penalty on the raw layer weights. 1 keeps them at the plain mean.
        elmo_dropout: Rate on the mixed features.
        word_dim: Width of learned word vectors; given static vectors have their own. 0 for no word vectors.
        character_filters: Filters over the bytes of a word; 0 for none.
        hidden: Units of the LSTM in each direction.
        rnn_layers: Layers of the LSTM.
        dropout: Rate on the word vectors and on the output of the RNN.
    """

    inject: Inject = "input"
    layer_penalty: float = 0.001
    elmo_dropout: float = 0.5
    word_dim: int = 50
    character_filters: int = 64
    hidden: int = 100
    rnn_layers: int = 1
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_choice("inject", self.inject, Inject)
        if self.inject in ("none", "output") and not (self.word_dim or self.character_filters):
            raise ConfigError(
                f"inject {self.inject!r} leaves the RNN without input: ask for word vectors or characters"
            )
        if self.hidden < 1 or self.rnn_layers < 1 or min(self.word_dim, self.character_filters) < 0:
            raise ConfigError("hidden units and RNN layers start at 1, word width and character filters at 0")
        if not (0 <= self.dropout < 1 and 0 <= self.elmo_dropout < 1) or self.layer_penalty < 0:
            raise ConfigError("dropout rates lie in [0, 1), and the layer penalty is not negative")


class WordEncoder(nn.Module):
    """The baseline's vector of a word: a learned or static vector, and a CNN over its bytes.

    A static vector stays as it is; a word without one, but frequent in training, has a learned one.
    """

    has_static: Tensor
    static: Tensor

    def __init__(self, config: EncoderConfig, index: WordIndex, vectors: StaticVectors | None) -> None:
        super().__init__()
        word_dim = vectors.width if vectors is not None and config.word_dim else config.word_dim
        self.width = word_dim + config.character_filters
        self.learned = nn.Embedding(len(index), word_dim) if word_dim else None
        if self.learned is not None:
            nn.init.normal_(self.learned.weight, std=0.1 if vectors is None else float(vectors.vectors.std()))
        static = torch.zeros(len(index), word_dim)
        has_static = torch.zeros(len(index), 1, dtype=torch.bool)
        if vectors is not None and word_dim:
            words = index.words()
            static[1:] = torch.from_numpy(vectors.of(words))
            has_static[1:, 0] = torch.tensor([word in vectors.index for word in words])
        self.register_buffer("static", static, persistent=False)
        self.register_buffer("has_static", has_static, persistent=False)
        self.characters = None
        if config.character_filters:
            self.characters = nn.Embedding(257, 16, padding_idx=0)
            self.convolution = nn.Conv1d(16, config.character_filters, kernel_size=3, padding=1)

    def forward(self, batch: TaskBatch) -> Tensor:
        """The vectors (batch, tokens, width)."""
        parts = []
        if self.learned is not None:
            learned = self.learned(batch.words)
            parts.append(torch.where(self.has_static[batch.words], self.static[batch.words], learned))
        if self.characters is not None:
            convolved = self.convolution(self.characters(batch.characters).transpose(1, 2))
            parts.append(torch.relu(convolved).amax(dim=2))
        return torch.cat(parts, dim=1)[batch.places]


class SentenceEncoder(nn.Module):
    """Vectors of tokens in context: `[word; ELMo] -> biLSTM -> [state; ELMo]`, each ELMo as far as it is injected.

    Attributes:
        width: Of the result.
        mixes: The mix at each place, under `input` and `output`.
    """

    def __init__(
        self,
        config: EncoderConfig,
        *,
        index: WordIndex,
        vectors: StaticVectors | None,
        elmo: tuple[int, int] | None,
    ) -> None:
        """Builds the encoder.

        Args:
            config: Its settings.
            index: The words of the baseline.
            vectors: Static vectors in place of learned ones.
            elmo: Number of layers and width of the features; None without.

        Raises:
            ConfigError: ELMo is to be injected but there are no features.
        """
        super().__init__()
        if (elmo is None) != (config.inject == "none"):
            raise ConfigError("features and inject go together: give both, or neither and inject 'none'")
        places = {"none": (), "both": ("input", "output")}.get(config.inject, (config.inject,))
        layers, elmo_width = elmo or (0, 0)
        self.mixes = nn.ModuleDict({place: ScalarMix(layers, dropout=config.elmo_dropout) for place in places})
        self._penalty = config.layer_penalty
        self.words = WordEncoder(config, index, vectors) if config.word_dim or config.character_filters else None
        word_width = self.words.width if self.words is not None else 0
        self.dropout = nn.Dropout(config.dropout)
        self.rnn = nn.LSTM(
            word_width + ("input" in places) * elmo_width,
            config.hidden,
            num_layers=config.rnn_layers,
            batch_first=True,
            bidirectional=True,
            dropout=config.dropout if config.rnn_layers > 1 else 0.0,
        )
        self.width = 2 * config.hidden + ("output" in places) * elmo_width

    def forward(self, batch: TaskBatch) -> Tensor:
        """The vectors (batch, tokens, width); those behind a sentence's end mean nothing."""
        inputs = [] if self.words is None else [self.dropout(self.words(batch))]
        inputs += self._elmo("input", batch)
        lengths = batch.mask.sum(1)
        packed = pack_padded_sequence(torch.cat(inputs, dim=2), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return torch.cat([self.dropout(states), *self._elmo("output", batch)], dim=2)

    def penalty(self) -> Tensor:
        """What the layer weights add to the loss."""
        total = torch.zeros(())
        for mix in self.mixes.values():
            assert isinstance(mix, ScalarMix)
            total = total + self._penalty * mix.penalty()
        return total

    def learned_mixes(self) -> dict[str, dict[str, Any]]:
        """For each place, the final layer weights, which sum to 1, and gamma."""
        return {
            place: {"weights": mix.layer_weights().tolist(), "gamma": float(mix.gamma.detach())}
            for place, mix in self.mixes.items()
            if isinstance(mix, ScalarMix)
        }

    def _elmo(self, place: str, batch: TaskBatch) -> list[Tensor]:
        if place not in self.mixes:
            return []
        assert batch.layers is not None
        return [self.mixes[place](batch.layers, batch.mask)]
