"""The model a run starts from: fresh, or another one with its softmax fitted to another vocabulary."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from elmo_model.bilm import build_bilm
from elmo_model.errors import OptionsError
from elmo_model.options import PREDICTION_CHARACTERS, ElmoOptions
from elmo_model.pretraining.language_model import LanguageModel
from elmo_model.pretraining.model_files import SOFTMAX_FILE, read_language_model
from elmo_model.pretraining.softmax import Softmax
from elmo_model.vocabulary import Vocabulary
from elmo_model.weights import read_bilm


def new_model(options: ElmoOptions, vocabulary: Vocabulary, *, seed: int) -> LanguageModel:
    """A model with the initial values of the original program, drawn by seed."""
    if options.char_cnn is not None:
        # What is written in the end is for prediction; the weights have the same rows either way.
        options = dataclasses.replace(
            options, char_cnn=dataclasses.replace(options.char_cnn, n_characters=PREDICTION_CHARACTERS)
        )
    bilm = build_bilm(options, vocabulary=vocabulary)
    softmax = Softmax(n_words=len(vocabulary), width=options.lstm.projection_dim)
    generator = torch.Generator().manual_seed(seed)
    bilm.reset_parameters(generator)
    softmax.reset_parameters(generator)
    return LanguageModel(bilm, softmax)


def continued_model(
    folder: str | Path, vocabulary: Vocabulary | None, *, options: ElmoOptions | None, seed: int
) -> tuple[LanguageModel, Vocabulary, str]:
    """A trained model to go on with, its vocabulary, and what was done to its softmax, in words.

    Args:
        folder: The trained model.
        vocabulary: Words of the new softmax; None for the model's own. Rows of words both have are copied.
        options: The shape that is asked for; None for whatever the model has.
        seed: Of the rows of new words.

    Raises:
        OptionsError: The model has another shape.
        ElmoModelError: It can't be read, or has no words and none are given.
    """
    if options is not None:
        _require_shape(folder, options)
    if vocabulary is not None and not (Path(folder) / SOFTMAX_FILE).is_file():
        bilm = read_bilm(folder).requires_grad_(True)
        fresh = Softmax(n_words=len(vocabulary), width=bilm.lstm.projection_dim)
        fresh.reset_parameters(torch.Generator().manual_seed(seed))
        return LanguageModel(bilm, fresh), vocabulary, f"the softmax is new: {folder} has none"
    model, own = read_language_model(folder)
    if vocabulary is None or vocabulary.words == own.words:
        return model, own, "the softmax is the model's own"
    if options is not None and options.char_cnn is None:
        raise OptionsError(f"{folder}: reads words, so its vocabulary can't be exchanged")
    softmax, copied = _refitted(model.softmax, own, vocabulary, seed=seed)
    told = f"{copied:,} words of the vocabulary keep their softmax rows, {len(vocabulary) - copied:,} are new"
    return LanguageModel(model.bilm, softmax), vocabulary, told


def _require_shape(folder: str | Path, options: ElmoOptions) -> None:
    there = read_bilm(folder).options.to_mapping()
    asked = options.to_mapping()
    for mapping in (there, asked):
        mapping.get("char_cnn", {}).pop("n_characters", None)
    differing = [key for key in {**there, **asked} if there.get(key) != asked.get(key)]
    if differing:
        raise OptionsError(
            f"{folder}: has another {' and '.join(differing)} than the options ask for "
            f"({there.get(differing[0])} against {asked.get(differing[0])}); leave the options out to take the model's"
        )


@torch.no_grad()
def _refitted(softmax: Softmax, old: Vocabulary, new: Vocabulary, *, seed: int) -> tuple[Softmax, int]:
    """A softmax for new words, rows copied by word, and how many were."""
    refitted = Softmax(n_words=len(new), width=softmax.weight.shape[1])
    refitted.reset_parameters(torch.Generator().manual_seed(seed))
    shared = [word for word in new.words if word in old]
    to, source = ([vocabulary.id_of(word) for word in shared] for vocabulary in (new, old))
    for fresh, known in zip(refitted.parameters(), softmax.parameters(), strict=True):
        fresh[to] = known[source]
    return refitted, len(shared)
