"""What a pretraining run is made of: its options, folder, model, vocabulary, length and settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elmo_model.options import ElmoOptions
from elmo_model.pretraining.checkpoint import CheckpointError
from elmo_model.pretraining.config import PRESETS, TrainingOptions, preset_path, read_training_config
from elmo_model.pretraining.distribution import Processes
from elmo_model.pretraining.initialization import continued_model, new_model
from elmo_model.pretraining.language_model import LanguageModel
from elmo_model.pretraining.model_files import VOCABULARY_FILE
from elmo_model.pretraining.session import CHECKPOINTS_FOLDER, Length
from elmo_model.pretraining.streams import EmptyCorpusError
from elmo_model.pretraining.vocabulary_building import VocabularyCheck, build_vocabulary, count_words, write_vocabulary
from elmo_model.shipped import model_folder
from elmo_model.vocabulary import Vocabulary
from jobs.prose import Prose
from pipeline.config import CorpusConfig

Say = Callable[[str], None]
"""Tells the user a line."""


@dataclass(frozen=True, kw_only=True)
class PretrainOptions:
    """What `elmo pretrain` was asked to do; see its help."""

    corpus: str
    corpus_config: CorpusConfig
    folder: Path
    config: str | None
    vocabulary: Path | None
    vocabulary_size: int
    valid: str | None
    hours: float | None
    epochs: int | None
    steps: int | None
    resume: bool
    init: str | None
    precision: str
    device: str
    seed: int
    store_as: Literal["float32", "float16"]
    checkpoint_seconds: float
    validation_seconds: float


def check_folder(options: PretrainOptions) -> None:
    """Makes the folder of a run; one that holds checkpoints needs `--resume`, and the other way round.

    Raises:
        CheckpointError: It isn't so.
    """
    begun = (options.folder / CHECKPOINTS_FOLDER).is_dir() and any((options.folder / CHECKPOINTS_FOLDER).iterdir())
    if begun and not options.resume:
        raise CheckpointError(
            f"{options.folder}: holds the checkpoints of a run; add --resume to go on, or name another folder"
        )
    if options.resume and not begun:
        raise CheckpointError(f"{options.folder}: holds no checkpoint to resume from; leave --resume out to begin")
    options.folder.mkdir(parents=True, exist_ok=True)


def read_config(options: PretrainOptions) -> tuple[ElmoOptions | None, TrainingOptions]:
    """The shape asked for, if one is, and the settings of the training."""
    if options.config is not None:
        return read_training_config(preset_path(options.config) if options.config in PRESETS else options.config)
    shape, training = read_training_config(preset_path("mini"))
    return (shape if options.init is None else None), training


def starting_model(
    options: PretrainOptions, shape: ElmoOptions | None, prose: Prose, say: Say
) -> tuple[LanguageModel, Vocabulary]:
    """The model a run starts from and the words of its softmax, made from the corpus if none are given.

    Raises:
        ElmoModelError: A file given can't be used.
    """
    given: Vocabulary | None = None
    made = options.folder / VOCABULARY_FILE
    if options.vocabulary is not None:
        given = Vocabulary.read(options.vocabulary)
    elif options.resume:
        given = Vocabulary.read(made)
    elif options.init is None:
        say(f"counting words for a vocabulary of up to {options.vocabulary_size:,}")
        given = build_vocabulary(count_words(prose.sentences()), size=options.vocabulary_size)
    if options.init is not None:
        model, vocabulary, told = continued_model(model_folder(options.init), given, options=shape, seed=options.seed)
        say(f"starting from {options.init}: {told}")
    else:
        assert shape is not None
        assert given is not None
        model, vocabulary = new_model(shape, given, seed=options.seed), given
    if Processes().rank == 0 and not options.resume:
        write_vocabulary(vocabulary, made)
    return model, vocabulary


def fitted(training: TrainingOptions, vocabulary: Vocabulary, say: Say) -> TrainingOptions:
    """The settings, without sampling where the vocabulary is hardly larger than the sample."""
    if training.sample_softmax and training.n_negative_samples_batch >= len(vocabulary):
        say(
            f"the vocabulary has {len(vocabulary):,} words and the sample {training.n_negative_samples_batch:,}: "
            "training on all words instead"
        )
        return dataclasses.replace(training, sample_softmax=False)
    return training


def read_once(prose: Prose, vocabulary: Vocabulary, say: Say) -> VocabularyCheck:
    """Counts the corpus, naming what is amiss in it."""
    check = VocabularyCheck(vocabulary)
    for file in prose.files:
        before = check.sentences
        for sentence in prose.sentences_of(file):
            check.add(sentence)
        if check.sentences == before:
            say(f"warning: {file.name} holds no sentences")
    if not check.tokens:
        raise EmptyCorpusError("the corpus holds no words; pretraining needs text")
    say(
        f"{check.sentences:,} sentences, {check.tokens:,} tokens; {check.unknown / check.tokens:.2%} are unknown to "
        f"the {len(vocabulary):,} words of the vocabulary"
    )
    misplaced = check.misplaced()
    if misplaced is not None:
        rarer, commoner = (f"{vocabulary.words[line - 1]!r} on line {line}" for line in misplaced)
        say(
            "warning: the vocabulary isn't sorted by frequency in this corpus, as sampling expects: "
            f"{commoner} is more frequent than {rarer}"
        )
    return check


def run_length(options: PretrainOptions, training: TrainingOptions, tokens: int, processes: int, say: Say) -> Length:
    """How long the run is; steps are counted as published, by the words of the corpus.

    Raises:
        EmptyCorpusError: The corpus is smaller than a batch.
    """
    window = training.batch_size * training.unroll_steps * processes
    per_epoch = tokens // window
    if per_epoch == 0:
        raise EmptyCorpusError(
            f"the corpus has {tokens:,} tokens, and one batch takes {window:,} (batch_size {training.batch_size} x "
            f"unroll_steps {training.unroll_steps} x {processes} processes); give more text or make batches smaller"
        )
    if training.n_train_tokens is not None and training.n_train_tokens != tokens:
        said = f"{training.n_train_tokens:,}"
        say(f"warning: the options say n_train_tokens {said}; {tokens:,} are counted, which decides")
    if options.hours is not None:
        say(f"training for {options.hours:g} hours; a pass over the corpus is {per_epoch:,} steps")
        return Length(hours=options.hours)
    epochs = options.epochs or training.n_epochs
    steps = options.steps or epochs * per_epoch
    say(f"training for {steps:,} steps; a pass over the corpus is {per_epoch:,}")
    return Length(steps=steps)


def run_settings(
    options: PretrainOptions,
    model: LanguageModel,
    training: TrainingOptions,
    vocabulary: Vocabulary,
    prose: Prose,
    processes: int,
) -> dict[str, Any]:
    """What a checkpoint belongs to."""
    settings = {
        **model.bilm.options.to_mapping(),
        **training.to_mapping(),
        "vocabulary": len(vocabulary),
        "corpus": [file.name for file in prose.files],
        "tokenizer": prose.tokenizer.version,
        "precision": options.precision,
        "seed": options.seed,
        "processes": processes,
    }
    # How long a run is may change from one leg to the next.
    return {name: value for name, value in settings.items() if name not in ("n_epochs", "n_train_tokens")}
