"""Transformer encoders in the layout of Hugging Face, from a local folder, shown to the pipeline as encoders.

Weights are read from safetensors files only, code that a folder brings along is never run, and nothing is fetched.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jobs.encoders.devices import available_device, translated_errors, use_threads
from jobs.encoders.pretrained import encoder_config, folder_digest, pretrained, weight_files, word_tokenizer
from pipeline.config import Precision, check_choice
from pipeline.encoding import Encoded, EncoderSpec
from pipeline.errors import ConfigError
from pipeline.schema import Column

NUMERICS_VERSION = 1

PiecePooling = Literal["mean", "first"]


def is_transformer(folder: Path) -> bool:
    """Whether a folder is a model of this family: its `config.json` names a `model_type`."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and isinstance(config.get("model_type"), str)


@dataclass(frozen=True, kw_only=True)
class TransformerEncoderFactory:
    """A transformer's folder, as an encoder.

    Attributes:
        model: The folder.
        pieces: How the pieces of a word become its vector: their `mean`, or the `first` one.
        threads: Cores that one process computes with; None for all of the machine it is on.
    """

    model: str
    pieces: PiecePooling = "mean"
    threads: int | None = 1

    def __post_init__(self) -> None:
        check_choice("pieces", self.pieces, PiecePooling)

    def describe(self) -> EncoderSpec:
        """The columns `layer_0` (the embeddings) to `layer_n`, and the digest of config, tokenizer and weights."""
        files = weight_files(Path(self.model))
        config = encoder_config(self.model)
        return EncoderSpec(
            family="transformer",
            columns=tuple(
                Column(name=f"layer_{layer}", width=config.hidden_size, layer=layer, direction="both")
                for layer in range(config.num_hidden_layers + 1)
            ),
            model_digest=folder_digest(Path(self.model), files),
            numerics={"version": NUMERICS_VERSION, "pieces": self.pieces},
        )

    def check(self, *, device: str, precision: Precision, carried_state: bool) -> None:
        """Refuses a device that cannot be used here, and what a transformer does not have."""
        available_device(device)
        if precision != "float32":
            raise ConfigError(f"precision {precision}: transformers are computed in float32 only")
        if carried_state:
            raise ConfigError("carried state: a transformer has no state; leave it out")

    def load(
        self, *, columns: Sequence[str], device: str, precision: Precision, carried_state: bool
    ) -> "TransformerEncoder":
        """The loaded model on the device."""
        self.check(device=device, precision=precision, carried_state=carried_state)
        weight_files(Path(self.model))
        use_threads(self.threads)
        model = pretrained("AutoModel", self.model, use_safetensors=True)
        return TransformerEncoder(
            model.float().eval().to(available_device(device)),
            word_tokenizer(self.model),
            layers={name: int(name.removeprefix("layer_")) for name in columns},
            pieces=self.pieces,
        )


class TransformerEncoder:
    """A transformer with its tokenizer: vectors of words from those of their pieces.

    A sentence of more pieces than the model takes is cut into windows of whole words, counted as `windows_added`. A
    word of more pieces than that loses its tail (`truncated_tokens`); one of no pieces, such as an empty one, has the
    zero vector (`tokens_without_pieces`).
    """

    def __init__(self, model: Any, tokenizer: Any, *, layers: Mapping[str, int], pieces: PiecePooling) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._layers = layers
        self._pieces = pieces
        positions = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
        self._most_pieces = min(positions, tokenizer.model_max_length)

    @property
    def runtime(self) -> Mapping[str, str]:
        """Device, threads and library versions."""
        return {
            "device": str(self._model.device),
            "threads": str(torch.get_num_threads()),
            "torch": version("torch"),
            "transformers": version("transformers"),
        }

    @torch.inference_mode()
    def encode(self, sentences: Sequence[Sequence[str]]) -> Encoded:
        """The layers asked for, of all words."""
        n_words = sum(len(sentence) for sentence in sentences)
        read = [list(sentence) for sentence in sentences if sentence]
        if not read:
            empty = np.zeros((0, self._model.config.hidden_size), np.float32)
            return Encoded(columns=dict.fromkeys(self._layers, empty))
        windows, truncated = self._windows(read)
        batch = self._tokenizer(
            windows, is_split_into_words=True, padding=True, truncation=True, max_length=self._most_pieces
        )
        owners = _owners([batch.word_ids(number) for number in range(len(windows))], windows)
        device = self._model.device
        with translated_errors():
            hidden = self._model(
                input_ids=torch.tensor(batch["input_ids"], device=device),
                attention_mask=torch.tensor(batch["attention_mask"], device=device),
                output_hidden_states=True,
            ).hidden_states
            place = torch.from_numpy(owners).to(device)
            columns = {
                name: _pooled(hidden[layer].flatten(0, 1), place, n_words, pieces=self._pieces).cpu().numpy()
                for name, layer in self._layers.items()
            }
        counts = {
            "windows_added": len(windows) - len(read),
            "truncated_tokens": truncated,
            "tokens_without_pieces": n_words - len(np.unique(owners[owners >= 0])),
        }
        return Encoded(columns=columns, counts={name: count for name, count in counts.items() if count})

    def _windows(self, sentences: Sequence[list[str]]) -> tuple[list[list[str]], int]:
        """The sentences in windows that fit, and how many words do not fit a window of their own."""
        room = self._most_pieces - self._tokenizer.num_special_tokens_to_add()
        batch = self._tokenizer(list(sentences), is_split_into_words=True, add_special_tokens=False)
        windows: list[list[str]] = []
        truncated = 0
        for number, sentence in enumerate(sentences):
            pieces = np.bincount([word for word in batch.word_ids(number) if word is not None], minlength=len(sentence))
            truncated += int((pieces > room).sum())
            window: list[str] = []
            used = 0
            for word, needed in zip(sentence, pieces.tolist(), strict=True):
                if window and used + needed > room:
                    windows.append(window)
                    window, used = [], 0
                window.append(word)
                used += needed
            windows.append(window)
        return windows, truncated


def _owners(word_ids: Sequence[Sequence[int | None]], windows: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """For each piece of each padded window, the word's place among all words; -1 for marks and padding."""
    starts = np.cumsum([0, *(len(window) for window in windows)])
    owners = [
        -1 if word is None else start + word
        for start, words in zip(starts.tolist(), word_ids, strict=False)
        for word in words
    ]
    return np.array(owners, dtype=np.int64)


def _pooled(vectors: Tensor, owners: Tensor, n_words: int, *, pieces: PiecePooling) -> Tensor:
    """Word vectors (words, width) from piece vectors (pieces, width)."""
    taken = owners >= 0
    if pieces == "first":
        taken = taken & (owners != owners.roll(1))
    owners = owners[taken]
    sums = vectors.new_zeros(n_words, vectors.shape[1]).index_add_(0, owners, vectors[taken])
    return sums / torch.bincount(owners, minlength=n_words).clamp(min=1)[:, None]
