"""`elmo inspect`: what a store holds, and how to load it."""

from itertools import islice

import click
import numpy as np

from jobs.progress import readable_bytes
from pipeline.errors import FailedSentenceError, MissingColumnError
from pipeline.features import Features
from pipeline.reader import FeatureStore

SHOWN_IDS = 3


@click.command()
@click.argument("store")
@click.option("--id", "sentence_id", help="Show this sentence instead.")
def inspect(store: str, sentence_id: str | None) -> None:
    """Show what STORE holds: sizes, columns, model, the first sentences, and a loading example that runs as printed."""
    opened = FeatureStore.open(store)
    if sentence_id is not None:
        _print_sentence(opened, opened[sentence_id])
        return
    manifest = opened.manifest
    size = sum(shard.bytes for shard in manifest.shards)
    click.echo(
        f"{len(opened):,} sentences ({opened.failed:,} failed), {manifest.tokens:,} tokens, {len(manifest.shards):,} "
        f"{manifest.shard_format} shards, {readable_bytes(size)}"
    )
    click.echo(f"{'column':12} {'rows':9} {'width':>5} {'dtype':8} layer")
    for column in manifest.columns:
        layer = column.derived if column.layer is None else column.layer
        click.echo(f"{column.name:12} {column.rows:9} {column.width:5} {manifest.dtype:8} {layer}")
    encoder = manifest.settings["encoder"]
    click.echo(f"model {encoder['family']} {encoder['model_digest'][:16]}, job {manifest.fingerprint[:16]}")
    for identifier in islice(opened.ids(), SHOWN_IDS):
        click.echo(f"  {identifier!r}: {_described(opened, identifier)}")
    click.echo("\nTo load it:\n")
    click.echo("\n".join(loading_example(opened, store)))


def loading_example(opened: FeatureStore, url: str) -> list[str]:
    """Three lines of Python that print the shape of the first sentence's features."""
    first = next(iter(opened), None)
    load = ["from pipeline.reader import FeatureStore", f"store = FeatureStore.open({url!r})"]
    if first is None:
        return [*load, "print(len(store))"]
    try:
        first.layers()
        return [*load, f"print(store[{first.id!r}].layers().shape)  # (layers, tokens, width)"]
    except MissingColumnError:
        name = next(iter(opened.columns))
        return [*load, f"print(store[{first.id!r}].column({name!r}).shape)  # ({opened.columns[name].rows}s, width)"]


def _described(opened: FeatureStore, identifier: str) -> str:
    try:
        features = opened[identifier]
    except FailedSentenceError:
        return "failed"
    return ", ".join(f"{name} {features.column(name).shape}" for name in opened.columns)


def _print_sentence(opened: FeatureStore, features: Features) -> None:
    click.echo(f"{features.id!r}, {features.source}:{features.line}, {len(features.tokens)} tokens")
    if features.text is not None:
        click.echo(f"text: {features.text}")
    click.echo(f"tokens: {list(features.tokens)!r}")
    for name in opened.columns:
        values = features.column(name)
        norms = np.linalg.norm(values.astype(np.float32), axis=-1)
        shown = ", ".join(f"{norm:.3f}" for norm in np.atleast_1d(norms)[:8])
        more = ", ..." if norms.size > 8 else ""
        click.echo(f"{name} {values.dtype} {values.shape}, length of each vector: {shown}{more}")
