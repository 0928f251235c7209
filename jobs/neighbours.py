"""`elmo neighbours`: for occurrences of a word, the occurrences in other sentences that are closest to them."""

import click
import numpy as np

from jobs.occurrences import Occurrence, find_occurrences, last_layer, similarities
from pipeline.reader import FeatureStore

WIDTH = 90


@click.command()
@click.argument("store")
@click.argument("word")
@click.option("--layer", type=int, help="Whose vectors; 0 is the token vector, alike everywhere.  [default: the last]")
@click.option("--show", default=5, show_default=True, help="Occurrences to print.")
@click.option("--nearest", default=3, show_default=True, help="Neighbours of each.")
@click.option("--limit", default=2000, show_default=True, help="Occurrences to compare, at most.")
def neighbours(store: str, word: str, layer: int | None, show: int, nearest: int, limit: int) -> None:
    """Print occurrences of WORD in STORE, each with those closest to it by the cosine of their vectors."""
    opened = FeatureStore.open(store)
    occurrences, total = find_occurrences(opened, word, layer=layer, limit=limit)
    chosen = f", {limit:,} of them chosen at random" if total > limit else ""
    shown_layer = layer if layer is not None else last_layer(opened)
    click.echo(f"{word}: {total:,} occurrences{chosen}, by layer {shown_layer}")
    vectors = [occurrence.vector for occurrence in occurrences]
    for occurrence in occurrences[:show]:
        click.echo(f"\n        {in_context(occurrence)}  ({occurrence.id})")
        cosines = similarities([occurrence.vector], vectors)[0]
        others = [row for row in np.argsort(-cosines, kind="stable").tolist() if occurrences[row].id != occurrence.id]
        for row in others[:nearest]:
            click.echo(f"  {cosines[row]:.3f} {in_context(occurrences[row])}  ({occurrences[row].id})")


def in_context(occurrence: Occurrence) -> str:
    """The occurrence on one line, the word in brackets."""
    before, word, after = occurrence.around(WIDTH)
    return f"{before} [{word}] {after}".strip()
