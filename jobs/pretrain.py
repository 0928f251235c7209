"""`elmo pretrain`: a language model from a folder of text, resumable, on one process or several."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import get_args

import click
import torch

from elmo_model.pretraining.config import PRESETS
from jobs.encoders.devices import available_device
from jobs.pretraining_run import run_pretraining
from jobs.pretraining_setup import PretrainOptions
from jobs.prose import corpus_options
from jobs.stopping import Interrupted
from pipeline.config import CorpusConfig, Device


@click.command()
@click.argument("corpus")
@click.argument("model", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--config",
    help=f"A size ({', '.join(PRESETS)}) or an options file; mini by default, or the shape of --init.",
)
@click.option(
    "--vocab", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Made from CORPUS by default."
)
@click.option("--vocab-size", type=click.IntRange(min=4), default=40_000, show_default=True, help="If it is made here.")
@click.option("--valid", help="Held-out text, read like CORPUS; its perplexity is followed.")
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="End after so many hours of training.")
@click.option("--epochs", type=click.IntRange(min=1), help="End after so many passes; by default as the options say.")
@click.option("--steps", type=click.IntRange(min=1), help="End after so many steps.")
@click.option("--resume", is_flag=True, help="Go on from the last checkpoint in MODEL, with the same options.")
@click.option("--init", help="Start from the weights of this model, a folder or the name of a shipped one.")
@click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Of matrix products; weights are float32 in any case.",
)
@click.option(
    "--device", type=click.Choice(get_args(Device)), default="auto", show_default=True, help="Where to compute."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of initial values, data order and candidates.")
@click.option(
    "--store-as",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="Type of the written weights.",
)
@click.option("--checkpoint-minutes", type=float, default=10.0, show_default=True, help="Between checkpoints.")
@click.option("--validation-minutes", type=float, default=20.0, show_default=True, help="Between validations.")
@corpus_options
def pretrain(
    corpus: str,
    model: Path,
    config: str | None,
    vocab: Path | None,
    vocab_size: int,
    valid: str | None,
    hours: float | None,
    epochs: int | None,
    steps: int | None,
    resume: bool,
    init: str | None,
    precision: str,
    device: Device,
    seed: int,
    store_as: str,
    checkpoint_minutes: float,
    validation_minutes: float,
    corpus_config: CorpusConfig,
) -> None:
    """Train a biLM on CORPUS and write it to the folder MODEL, ready for `elmo dump --model MODEL`.

    MODEL also gets checkpoints, the record of the training (metrics.jsonl) and its curve (curve.png). A first Ctrl-C or
    SIGTERM writes a checkpoint and ends. Several processes train together with:

    \b
    torchrun --nproc-per-node 4 -m jobs pretrain CORPUS MODEL ...
    """
    if sum(bound is not None for bound in (hours, epochs, steps)) > 1:
        raise click.UsageError("--hours, --epochs and --steps exclude each other")
    options = PretrainOptions(
        corpus=corpus,
        corpus_config=corpus_config,
        folder=model,
        config=config,
        vocabulary=vocab,
        vocabulary_size=vocab_size,
        valid=valid,
        hours=hours,
        epochs=epochs,
        steps=steps,
        resume=resume,
        init=init,
        precision=precision,
        device=available_device(device),
        seed=seed,
        store_as="float16" if store_as == "float16" else "float32",
        checkpoint_seconds=60 * checkpoint_minutes,
        validation_seconds=60 * validation_minutes,
    )
    with _distributed(options.device), _stop_requests() as stop:
        finished = run_pretraining(options, stop=lambda: bool(stop))
    if not finished:
        raise Interrupted(
            stop[0] if stop else signal.SIGTERM, "a checkpoint is written; the same command with --resume goes on"
        )


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """Collects the signals that ask for an end, which comes after the step that is under way."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _distributed(device: str) -> Iterator[None]:
    """Joins the processes that torchrun has started, if it has."""
    if not torch.distributed.is_torchelastic_launched():
        yield
        return
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")
    if device == "cuda":
        torch.cuda.set_device(torch.distributed.get_rank() % torch.cuda.device_count())
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()
