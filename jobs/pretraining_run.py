"""A pretraining run from options to model folder: corpus and vocabulary, the session, its display, the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch

from elmo_model.pretraining.checkpoint import CheckpointError
from elmo_model.pretraining.distribution import Processes
from elmo_model.pretraining.evaluation import Perplexity, perplexity
from elmo_model.pretraining.language_model import LanguageModel
from elmo_model.pretraining.memory import keep_freed_memory
from elmo_model.pretraining.model_files import ModelCard, write_language_model
from elmo_model.pretraining.session import Intervals, Session
from elmo_model.pretraining.trainer import Trainer
from elmo_model.vocabulary import Vocabulary
from jobs.curves import draw_curve
from jobs.pretraining_setup import (
    PretrainOptions,
    Say,
    check_folder,
    fitted,
    read_config,
    read_once,
    run_length,
    run_settings,
    starting_model,
)
from jobs.prose import Prose
from jobs.training_display import TrainingDisplay
from pipeline.errors import ConfigError


def run_pretraining(options: PretrainOptions, *, stop: Callable[[], bool]) -> bool:
    """Trains, writes the model folder, and tells whether the run came to its end rather than being stopped.

    Raises:
        ElmoModelError: The options, vocabulary or checkpoint can't be used, or a checkpoint can't be written.
        PipelineError: The corpus can't be read.
    """
    keep_freed_memory()
    processes = Processes()
    leads = processes.rank == 0
    say: Say = (lambda line: click.echo(line, err=True)) if leads else (lambda line: None)
    check_folder(options)
    prose = Prose.open(options.corpus, options.corpus_config)
    shape, training = read_config(options)
    model, vocabulary = starting_model(options, shape, prose, say)
    model.dropout = training.dropout
    model.carry_state = training.carry_state
    model.product_dtype = torch.bfloat16 if options.precision == "bfloat16" else torch.float32
    model.to(options.device)
    training = fitted(training, vocabulary, say)
    check = read_once(prose, vocabulary, say)
    length = run_length(options, training, check.tokens, processes.count, say)
    training = dataclasses.replace(training, n_train_tokens=check.tokens)

    trainer = Trainer(
        model,
        vocabulary=vocabulary,
        options=training,
        sentences=prose.epochs(seed=options.seed),
        seed=options.seed,
        processes=processes,
    )
    heldout = None if options.valid is None else Prose.open(options.valid, options.corpus_config)
    session = Session(
        trainer,
        options.folder,
        length=length,
        settings=run_settings(options, model, training, vocabulary, prose, processes.count),
        validate=None if heldout is None else lambda: _perplexity(model, heldout, vocabulary),
        intervals=Intervals(
            checkpoint_seconds=options.checkpoint_seconds, validation_seconds=options.validation_seconds
        ),
    )
    if options.resume:
        session.resume()
        say(f"resumed at step {trainer.step_number:,}, {trainer.tokens:,} tokens")
    try:
        _train_and_write(options, session, prose, vocabulary, stop=stop, say=say)
    except OSError as error:
        raise CheckpointError(f"{options.folder}: can't be written: {error}; its last checkpoint is intact") from None
    return session.finished


def _train_and_write(
    options: PretrainOptions,
    session: Session,
    prose: Prose,
    vocabulary: Vocabulary,
    *,
    stop: Callable[[], bool],
    say: Say,
) -> None:
    trainer = session.trainer
    leads = trainer.processes.rank == 0
    last_validation: dict[str, Any] = {}
    with TrainingDisplay(options.folder, enabled=leads) as display:
        for row in session.run(stop=stop):
            display.show(row)
            if row["kind"] == "validation":
                last_validation = row
    if leads:
        card = _card(options, trainer, session, prose, last_validation)
        write_language_model(
            trainer.model,
            options.folder,
            vocabulary=vocabulary,
            options=trainer.options,
            card=card,
            dtype=options.store_as,
        )
        _draw(options.folder, say)
        say(
            f"{options.folder}: step {trainer.step_number:,}, {trainer.tokens:,} tokens; use it with "
            f"elmo dump --model {options.folder}"
        )


def _perplexity(model: LanguageModel, heldout: Prose, vocabulary: Vocabulary) -> Perplexity:
    return perplexity(model, heldout.sentences(), vocabulary=vocabulary)


def _card(
    options: PretrainOptions, trainer: Trainer, session: Session, prose: Prose, validation: dict[str, Any]
) -> ModelCard:
    measured = {name: validation[name] for name in (*trainer.model.bilm.directions, "mean") if validation}
    return ModelCard(
        name=options.folder.name,
        description=f"Trained on {options.corpus}",
        tokenizer=prose.tokenizer.version,
        training={
            **trainer.options.to_mapping(),
            "precision": options.precision,
            "seed": options.seed,
            "steps": trainer.step_number,
            "tokens": trainer.tokens,
            "hours": round(session.seconds / 3600, 2),
            "initialized_from": options.init,
        },
        perplexity={"valid": measured} if measured else {},
    )


def _draw(folder: Path, say: Say) -> None:
    try:
        draw_curve(folder)
    except ConfigError as error:
        say(f"no curve drawn: {error}")
