"""`elmo dump`: a folder of text into a verified feature store; the same command again resumes."""

import json
import time
from dataclasses import asdict
from typing import get_args

import click

from elmo_model.kernels.select import KernelName
from elmo_model.pretraining.model_files import read_card
from elmo_model.shipped import DEFAULT_MODEL, model_folder
from jobs.corpus_options import corpus_options
from jobs.dataflow.gpus import GpuMode
from jobs.encoders.detect import encoder_factory
from jobs.encoders.transformer import PiecePooling
from jobs.memory import share_freed_memory
from jobs.options import choice, text
from jobs.progress import readable_bytes
from jobs.run_dump import DumpOptions, dataflow_request, run_dump, select_input_and_output, submit_dump
from jobs.runner_options import RunnerCommand, runner_config, runner_options
from jobs.runners import Runner, threads_per_worker
from pipeline.config import (
    CorpusConfig,
    Device,
    DumpConfig,
    EncodeConfig,
    Precision,
    StoreConfig,
)
from pipeline.derivations import NAMED_CHOICES
from pipeline.encoding import EncoderFactory
from pipeline.forecast import forecast
from pipeline.manifest import Manifest
from pipeline.mix import read_mix
from pipeline.pooling import POOLS
from pipeline.receipts import read_receipt
from pipeline.schema import FAILURES, ShardFormat, StoredDtype
from pipeline.storage import Folder

EXIT_WITH_FAILURES = 3


@click.command(cls=RunnerCommand)
@click.argument("inputs", nargs=-1, required=True)
@click.argument("output")
@text(
    "--model",
    default=DEFAULT_MODEL,
    help="Folder of the model, file of word vectors, or a name that `elmo models` lists.",
)
@choice("--format", "shard_format", of=ShardFormat, default=StoreConfig.shard_format, help="Of the shards.")
@choice("--dtype", of=StoredDtype, default=StoreConfig.dtype, help="Of the stored features.")
@text(
    "--layers",
    default=StoreConfig.layers,
    help=f"What is stored: {', '.join(NAMED_CHOICES)}, or layer numbers such as 0,2.",
)
@click.option(
    "--mix",
    type=click.Path(exists=True, dir_okay=False),
    help="Store one trained sum of all layers: a JSON file with weights and gamma.",
)
@click.option(
    "--pool",
    default=StoreConfig.pool,
    help=f"Store a row a sentence, or a span, instead: {', '.join(POOLS)}, or several.",
)
@choice("--precision", of=Precision, default=EncodeConfig.precision, help="Of the computation.")
@choice(
    "--device",
    of=Device,
    default=EncodeConfig.device,
    help="auto takes CUDA where it works; the result says what was taken.",
)
@corpus_options
@click.option(
    "--batch-tokens", default=EncodeConfig.batch_tokens, show_default=True, help="Most padded tokens in a batch."
)
@click.option("--shard-tokens", default=StoreConfig.shard_tokens, show_default=True, help="Tokens in a shard, about.")
@click.option(
    "--carried-state",
    "batch_sentences",
    type=int,
    metavar="SENTENCES",
    help="As the original tools did: state carried over batches of so many sentences in file order.",
)
@choice("--kernel", of=KernelName, default="auto", help="How LSTMs are computed.")
@click.option(
    "--token-table",
    type=click.Path(exists=True, dir_okay=False),
    help="ELMo: take token vectors from this file, which `elmo token-table` or bilm-tf wrote, not from characters.",
)
@click.option(
    "--vocabulary",
    type=click.Path(exists=True, dir_okay=False),
    help="The words of the token table; by default the vocabulary in the folder of the model.",
)
@click.option("--fold-full-width", is_flag=True, help="ELMoForManyLangs: read full-width forms as ASCII.")
@click.option("--lowercase", is_flag=True, help="Word vectors: look tokens up in lower case.")
@click.option(
    "--pieces", type=click.Choice(get_args(PiecePooling)), help="Transformers: what of its pieces a word is; else mean."
)
@runner_options
@click.option("--wait/--no-wait", default=True, help="Dataflow: stay until the job is done, or print its id and leave.")
@click.option("--cpu-spare", is_flag=True, help="Compute sentences that do not fit the GPU on the CPU, not fail them.")
@click.option(
    "--max-failures", default=DumpOptions.max_failures, show_default=True, help="Failed sentences to go on after."
)
@click.option("--fresh", is_flag=True, help="Remove an earlier dump from the output first.")
@click.option("--force", is_flag=True, help="Go on although the disk has too little room.")
@click.option("--dry-run", is_flag=True, help="Print settings, counts and sizes; write nothing.")
def dump(
    inputs: tuple[str, ...],
    output: str,
    model: str,
    shard_format: ShardFormat,
    dtype: StoredDtype,
    layers: str,
    mix: str | None,
    pool: str,
    precision: Precision,
    device: Device,
    corpus: CorpusConfig,
    batch_tokens: int,
    shard_tokens: int,
    batch_sentences: int | None,
    kernel: KernelName,
    token_table: str | None,
    vocabulary: str | None,
    fold_full_width: bool,
    lowercase: bool,
    pieces: PiecePooling | None,
    runner: Runner,
    workers: int | None,
    gpu: str | None,
    gpu_mode: GpuMode,
    take_over: bool,
    wait: bool,
    cpu_spare: bool,
    max_failures: int,
    fresh: bool,
    force: bool,
    dry_run: bool,
) -> int:
    """Compute the features of INPUTS (files, folders, patterns, - for standard input) into the store OUTPUT.

    The same command again resumes where the last one stopped. Exit code 3: complete, but some sentences failed.
    """
    share_freed_memory()
    if mix is not None:
        if layers != StoreConfig.layers:
            raise click.UsageError("--mix is a sum of all layers; leave --layers out")
        layers = read_mix(mix)
    config = DumpConfig(
        corpus=corpus,
        encode=EncodeConfig(
            batch_tokens=batch_tokens,
            carried_state=batch_sentences is not None,
            batch_sentences=batch_sentences,
            precision=precision,
            device=device,
        ),
        store=StoreConfig(shard_format=shard_format, dtype=dtype, layers=layers, pool=pool, shard_tokens=shard_tokens),
    )
    where = runner_config(runner=runner, workers=workers, gpu=gpu, gpu_mode=gpu_mode)
    encoder = encoder_factory(
        model,
        kernel=kernel,
        threads=threads_per_worker(where),
        token_table=token_table,
        vocabulary=vocabulary,
        fold_full_width=fold_full_width,
        lowercase=lowercase,
        pieces=pieces,
    )
    _note_tokenizer(model, corpus.tokenizer)
    options = DumpOptions(
        runner=where,
        fresh=fresh,
        force=force,
        max_failures=max_failures,
        cpu_spare=cpu_spare,
        take_over=take_over,
    )
    if dry_run:
        _print_forecast(inputs, output, encoder, config)
        if runner == "dataflow":
            click.echo(dataflow_request(inputs, output, encoder=encoder, config=config, options=options))
        return 0
    if not wait:
        submitted = submit_dump(inputs, output, encoder=encoder, config=config, options=options)
        click.echo(submitted or f"{output}: complete already")
        return 0
    started = time.monotonic()
    manifest = run_dump(inputs, output, encoder=encoder, config=config, options=options)
    _print_result(Folder(output), manifest, time.monotonic() - started)
    return EXIT_WITH_FAILURES if manifest.failed else 0


def _note_tokenizer(model: str, tokenizer: str) -> None:
    """Says so where a model was trained on the tokens of another tokenizer."""
    folder = model_folder(model)
    card = read_card(folder) if folder.is_dir() else None
    if card is not None and card.tokenizer.split()[0] != tokenizer:
        click.echo(
            f"note: {card.name} was trained on tokens of the tokenizer {card.tokenizer}; these are of {tokenizer}",
            err=True,
        )


def _print_forecast(inputs: tuple[str, ...], output: str, encoder: EncoderFactory, config: DumpConfig) -> None:
    folder = Folder(output)
    files, selection = select_input_and_output(inputs, folder, encoder.describe(), config)
    found = forecast(files, config=config, columns=selection.stored)
    click.echo(json.dumps(asdict(config), indent=1))
    click.echo(f"columns: {', '.join(f'{column.name} ({column.width})' for column in selection.stored)}")
    click.echo(f"{found.sentences:,} sentences, {found.tokens:,} tokens, {found.shards} shards from {len(files)} files")
    click.echo(f"{found.vector_bytes:,} bytes of vectors, the store about {readable_bytes(found.store_bytes)}")
    free = folder.free_bytes()
    if free is not None:
        click.echo(f"{readable_bytes(free)} free at {output}")


def _print_result(folder: Folder, manifest: Manifest, seconds: float) -> None:
    size = sum(shard.bytes for shard in manifest.shards) + manifest.index_bytes
    click.echo(
        f"{folder.url}: {manifest.sentences:,} sentences, {manifest.tokens:,} tokens, {len(manifest.shards)} shards, "
        f"{readable_bytes(size)}, in {seconds:.1f} s"
    )
    for name, count in sorted(manifest.counts.items()):
        if count and name != "string_bytes":
            click.echo(f"  {name.replace('_', ' ')}: {count:,}")
    if manifest.shards:
        runtime = read_receipt(folder, len(manifest.shards) - 1).runtime
        click.echo("  computed with " + ", ".join(f"{name} {value}" for name, value in runtime.items()))
    if manifest.failed:
        click.echo(f"  failed sentences: {manifest.failed:,}; the reasons are in {folder.url}/{FAILURES}", err=True)
