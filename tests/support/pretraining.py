"""Small language models, corpora and the golden values of the original training program."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray

from elmo_model.bilm import build_bilm
from elmo_model.options import ElmoOptions
from elmo_model.pretraining.config import TrainingOptions
from elmo_model.pretraining.language_model import LanguageModel
from elmo_model.pretraining.softmax import Softmax
from elmo_model.pretraining.streams import Sentences
from elmo_model.pretraining.trainer import Trainer
from elmo_model.vocabulary import Vocabulary
from elmo_model.weight_table import stored_arrays
from support.paths import GOLDEN

TRAINING = GOLDEN / "training"
VOCABULARY = TRAINING / "vocab.txt"


def read_lines(path: Path) -> list[list[str]]:
    """The sentences of a file, one a line."""
    return [line.split() for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def corpus_of(sentences: Sequence[Sequence[str]]) -> Sentences:
    """A corpus that gives the same sentences in every epoch."""

    def read(epoch: int) -> Iterator[Sequence[str]]:
        return iter(sentences)

    return read


def golden_options(file: h5py.File) -> dict[str, Any]:
    """The options a golden run had."""
    options = json.loads(file.attrs["options"])
    assert isinstance(options, dict)
    return options


def parameter_arrays(model: LanguageModel) -> dict[str, tuple[str, Any]]:
    """For each path of the original layout, the parameter's name and how its stored array is turned into it."""
    arrays = {
        array.names[0]: (f"bilm.{array.parameter}", array.to_parameter)
        for array in stored_arrays(model.bilm.options, project_tokens=True, project_states=True)
    }
    as_it_is = {
        f"softmax/{stored}": (f"softmax.{name}", torch.Tensor.clone)
        for stored, name in (("W", "weight"), ("b", "bias"))
    }
    return {**arrays, **as_it_is}


def read_golden(group: h5py.Group, model: LanguageModel) -> dict[str, NDArray[np.float32]]:
    """The arrays of a group, by parameter name and in our orientation."""
    return {
        name: turn(torch.from_numpy(group[path][()])).numpy() for path, (name, turn) in parameter_arrays(model).items()
    }


def language_model(
    options: dict[str, Any], vocabulary: Vocabulary, *, seed: int = 0, dropout: float = 0.0
) -> LanguageModel:
    """A language model with seeded initial values."""
    bilm = build_bilm(ElmoOptions.from_mapping(options), vocabulary=vocabulary)
    softmax = Softmax(n_words=len(vocabulary), width=bilm.lstm.projection_dim)
    generator = torch.Generator().manual_seed(seed)
    bilm.reset_parameters(generator)
    softmax.reset_parameters(generator)
    return LanguageModel(bilm, softmax, dropout=dropout)


def golden_model(file: h5py.File) -> LanguageModel:
    """The model of a golden run before its first step."""
    model = language_model(golden_options(file), Vocabulary.read(VOCABULARY))
    initial = read_golden(file["weights/initial"], model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(initial[name]))
    return model


def small_trainer(
    sentences: Sequence[Sequence[str]], *, seed: int = 1, model_seed: int = 0, device: str = "cpu", **changes: Any
) -> Trainer:
    """A trainer of the golden shape on the golden vocabulary."""
    vocabulary = Vocabulary.read(VOCABULARY)
    mapping = json.loads((TRAINING / "options.json").read_text(encoding="utf-8")) | changes
    options = TrainingOptions.from_mapping(mapping)
    model = language_model(mapping, vocabulary, seed=model_seed, dropout=options.dropout).to(device)
    model.carry_state = options.carry_state
    return Trainer(model, vocabulary=vocabulary, options=options, sentences=corpus_of(sentences), seed=seed)
