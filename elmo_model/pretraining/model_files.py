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

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from elmo_model.errors import WeightsError
from elmo_model.model_folder import ModelFiles
from elmo_model.pretraining.config import TrainingOptions
from elmo_model.pretraining.language_model import LanguageModel
from elmo_model.pretraining.softmax import Softmax
from elmo_model.pretraining.vocabulary_building import write_vocabulary
from elmo_model.vocabulary import Vocabulary
from elmo_model.weights import read_bilm, write_bilm

SOFTMAX_FILE = "softmax.safetensors"
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
    stored = torch.float16 if dtype == "float16" else torch.float32
    tensors = {name: value.detach().cpu().to(stored).contiguous() for name, value in model.softmax.named_parameters()}
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise WeightsError(f"{folder / SOFTMAX_FILE}: holds values that {dtype} can't hold")
    unfinished = folder / f".{SOFTMAX_FILE}.unfinished"
    save_file(tensors, unfinished)
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
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise WeightsError(f"{path}: incomplete or corrupt: {error}") from None
    with torch.no_grad():
        for name, parameter in softmax.named_parameters():
            tensor = tensors.get(name)
            if tensor is None or tensor.shape != parameter.shape or not torch.isfinite(tensor).all():
                raise WeightsError(
                    f"{path}: {name} must be an array of finite values of shape {tuple(parameter.shape)}, by "
                    f"vocabulary and options; it has shape {None if tensor is None else tuple(tensor.shape)}"
                )
            parameter.copy_(tensor)
    return LanguageModel(bilm, softmax), vocabulary
