"""A language model as a folder: the biLM in the original layout, and what it takes to evaluate or train it further.

options.json         shape and training settings, under the original keys
weights.hdf5         the biLM, as the original programs read it
vocab.txt            words of the softmax
softmax.safetensors  weight (words, p) and bias (words,)
card.json            what the model is made from, and how good it is
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo_model.errors import WeightsError
from elmo_model.model_folder import ModelFiles
from elmo_model.pretraining.config import TrainingOptions
from elmo_model.pretraining.language_model import LanguageModel
from elmo_model.pretraining.softmax import Softmax
from elmo_model.pretraining.vocabulary_building import write_vocabulary
from elmo_model.vocabulary import Vocabulary
from elmo_model.weight_file import open_weights, read_array
from elmo_model.weight_table import StoredArray
from elmo_model.weights import read_bilm, write_bilm

SOFTMAX_FILE = "softmax.hdf5"
CARD_FILE = "card.json"
VOCABULARY_FILE = "vocab.txt"


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What a model is made from, and how good it is.

    Attributes:
        name: Of the model.
        description: One sentence.
        licence: Of the weights.
        data: For each source of text its `name`, `licence` and `attribution`.
        tokenizer: Name and versions of the tokenizer of its text.
        training: Settings, tokens read, steps, hours.
        perplexity: By held-out split: `forward`, `backward`, `mean`, `tokens`, `unknown`.
    """

    name: str
    description: str = ""
    licence: str = ""
    data: list[dict[str, str]] = field(default_factory=list)
    tokenizer: str = "whitespace"
    training: dict[str, Any] = field(default_factory=dict)
    perplexity: dict[str, dict[str, float]] = field(default_factory=dict)


def write_language_model(
    model: LanguageModel,
    folder: str | Path,
    *,
    vocabulary: Vocabulary,
    options: TrainingOptions,
    card: ModelCard,
    dtype: Literal["float32", "float16"] = "float32",
) -> None:
    """Writes a model folder; files of the same names are replaced.

    Args:
        model: The model.
        folder: Created if need be.
        vocabulary: The words of its softmax.
        options: Kept in the options file, for whoever trains it further.
        card: Its description.
        dtype: Of the stored weights.

    Raises:
        WeightsError: A weight isn't finite, or overflows float16.
    """
    folder = Path(folder)
    # `n_train_tokens` and the like are the names the original programs use.
    extra = {**options.to_mapping(), "n_tokens_vocab": len(vocabulary)}
    write_bilm(model.bilm, folder, dtype=dtype, extra_options=extra)
    write_vocabulary(vocabulary, folder / VOCABULARY_FILE)
    unfinished = folder / f".{SOFTMAX_FILE}.unfinished"
    parameters = dict(model.softmax.named_parameters())
    with h5py.File(unfinished, "w") as file:
        for array in _softmax_arrays(len(vocabulary), model.bilm.lstm.projection_dim):
            with np.errstate(over="ignore"):
                stored = parameters[array.parameter].detach().cpu().numpy().astype(dtype)
            if not np.isfinite(stored).all():
                raise WeightsError(f"{folder / SOFTMAX_FILE}: {array.names[0]!r} holds values that {dtype} can't hold")
            file.create_dataset(array.names[0], data=stored, shuffle=True, compression="gzip")
    os.replace(unfinished, folder / SOFTMAX_FILE)
    write_card(card, folder)


def write_card(card: ModelCard, folder: str | Path) -> None:
    """Writes the card of a model folder."""
    text = json.dumps(asdict(card), indent=2, ensure_ascii=False)
    (Path(folder) / CARD_FILE).write_text(text + "\n", encoding="utf-8")


def read_card(folder: str | Path) -> ModelCard | None:
    """The card of a model folder, or None if it has none; unknown keys are ignored.

    Raises:
        WeightsError: The card isn't JSON, or lacks a name.
    """
    path = Path(folder) / CARD_FILE
    if not path.is_file():
        return None
    try:
        mapping = json.loads(path.read_bytes())
        return ModelCard(**{name: mapping[name] for name in ModelCard.__dataclass_fields__ if name in mapping})
    except (ValueError, TypeError, RecursionError) as error:
        raise WeightsError(f"{path}: not a model card: {error}") from None


def read_language_model(folder: str | Path) -> tuple[LanguageModel, Vocabulary]:
    """The language model in a folder, float32 on the CPU, and the words of its softmax.

    Raises:
        ElmoModelError: A file is missing or unusable, or they don't belong together; a biLM alone, as published models
            are, has no softmax and can't be evaluated.
    """
    folder = Path(folder)
    bilm = read_bilm(folder).requires_grad_(True)
    files = ModelFiles.find(folder)
    path = folder / SOFTMAX_FILE
    if files.vocabulary is None or not path.is_file():
        raise WeightsError(
            f"{folder}: holds no {SOFTMAX_FILE} and vocabulary, so it can't predict words; it gives vectors only"
        )
    vocabulary = Vocabulary.read(files.vocabulary)
    softmax = Softmax(n_words=len(vocabulary), width=bilm.lstm.projection_dim)
    parameters = dict(softmax.named_parameters())
    with open_weights(path) as file, torch.no_grad():
        for array in _softmax_arrays(len(vocabulary), bilm.lstm.projection_dim):
            parameters[array.parameter].copy_(torch.from_numpy(read_array(file, array)))
    return LanguageModel(bilm, softmax), vocabulary


def _softmax_arrays(words: int, width: int) -> list[StoredArray]:
    return [
        StoredArray(names=(name,), shape=shape, parameter=parameter, to_parameter=Tensor.clone, to_stored=Tensor.clone)
        for name, shape, parameter in (("W", (words, width), "weight"), ("b", (words,), "bias"))
    ]
