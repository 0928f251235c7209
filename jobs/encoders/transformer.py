"""Transformer encoders in the layout of Hugging Face, from a local folder, shown to the pipeline as encoders.

Weights are read from safetensors files only, code that a folder brings along is never run, and nothing is fetched.
"""

import hashlib
import json
import os
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
from pipeline.config import Precision, check_choice
from pipeline.encoding import Encoded, EncoderSpec
from pipeline.errors import ConfigError
from pipeline.schema import Column

NUMERICS_VERSION = 1

PiecePooling = Literal["mean", "first"]

# Besides weights and config, what decides how words become pieces.
_TOKENIZER_FILES = (
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
)


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
        files = _weight_files(Path(self.model))
        config = _pretrained("AutoConfig", self.model)
        return EncoderSpec(
            family="transformer",
            columns=tuple(
                Column(name=f"layer_{layer}", width=config.hidden_size, layer=layer, direction="both")
                for layer in range(config.num_hidden_layers + 1)
            ),
            model_digest=_digest(Path(self.model), files),
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
        _weight_files(Path(self.model))
        use_threads(self.threads)
        model = _pretrained("AutoModel", self.model, use_safetensors=True)
        return TransformerEncoder(
            model.float().eval().to(available_device(device)),
            _tokenizer(self.model),
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


def _tokenizer(folder: str) -> Any:
    tokenizer = _pretrained("AutoTokenizer", folder)
    if getattr(tokenizer, "add_prefix_space", None) is False:
        # Without it, tokenizers of bytes read words that are already apart as if glued together.
        tokenizer = _pretrained("AutoTokenizer", folder, add_prefix_space=True)
    if not tokenizer.is_fast:
        raise ConfigError(f"{folder}: its tokenizer cannot tell which word a piece is of; a tokenizer.json is needed")
    if tokenizer.pad_token_id is None:
        raise ConfigError(f"{folder}: its tokenizer has no padding token; this is no model of the kind of BERT")
    return tokenizer


def _pretrained(auto_class: str, folder: str, **options: Any) -> Any:
    """What the library makes of the folder, with nothing fetched and no code of the folder run."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read by the library on import
    try:
        import transformers  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise ConfigError(
            f"{folder}: a transformer needs its library: pip install 'elmo-features[transformers]'"
        ) from None
    library: Any = transformers
    library.utils.logging.disable_progress_bar()
    try:
        return getattr(library, auto_class).from_pretrained(
            str(Path(folder).resolve()), local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # of a damaged folder the library raises nearly anything
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(f"{folder}: {auto_class} cannot be made of it: {type(error).__name__}: {reason}") from None


def _weight_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        found = ", ".join(path.name for path in sorted(folder.glob("*.bin"))) or "no weights"
        raise ConfigError(
            f"{folder}: weights are read from safetensors files only, since others can run code; found {found}"
        )
    return files


def _digest(folder: Path, weights: Sequence[Path]) -> str:
    """A SHA-256 over the files that make up the model, by name."""
    tokenizer = {path for pattern in _TOKENIZER_FILES for path in folder.glob(pattern)}
    digest = hashlib.sha256()
    for path in sorted({folder / "config.json", *tokenizer, *weights}):
        with open(path, "rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()
