"""`elmo plot`: a word's occurrences in the plane, similarities of two sentences, learned layer weights."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from jobs.occurrences import Occurrence, find_occurrences, last_layer, similarities
from jobs.pictures.charts import LISTED, draw_occurrences, draw_similarities, draw_weights
from jobs.pictures.page import occurrences_page
from jobs.pictures.projection import principal_components
from pipeline.errors import ConfigError, CorpusError
from pipeline.reader import FeatureStore

FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def plot() -> None:
    """Draw what is in a store, or what a model has learned from it.

    \b
    elmo plot word features/ bank -o bank.png          and bank.html beside it
    elmo plot similarity features/ a.txt:1 a.txt:2 -o pair.png
    elmo plot weights run/result.json -o weights.png
    """


@plot.command()
@click.argument("store")
@click.argument("word")
@click.option("--output", "-o", type=FILE, required=True, help="A .png; the page goes beside it as .html.")
@click.option("--layer", type=int, help="Whose vectors.  [default: the last]")
@click.option("--labels", type=FILE, help="Lines SENTENCE-ID<tab>LABEL, or SENTENCE-ID<tab>TOKEN<tab>LABEL, by colour.")
@click.option("--limit", default=LISTED, show_default=True, help="Occurrences to draw, at most.")
def word(store: str, word: str, output: Path, layer: int | None, labels: Path | None, limit: int) -> None:
    """Project the occurrences of WORD in STORE onto two dimensions, with their sentences."""
    if output.suffix != ".png":
        raise ConfigError(f"{output}: the picture is a PNG; end its name with .png")
    opened = FeatureStore.open(store)
    occurrences, total = find_occurrences(opened, word, layer=layer, limit=limit)
    groups = _groups(labels, occurrences) if labels is not None else None
    projection = principal_components([occurrence.vector for occurrence in occurrences])
    chosen = f"{len(occurrences)} of {total}" if total > len(occurrences) else str(total)
    title = f"{word}: {chosen} occurrences, layer {layer if layer is not None else last_layer(opened)}"
    page = occurrences_page(title=title, occurrences=occurrences, projection=projection, groups=groups)
    output.parent.mkdir(parents=True, exist_ok=True)
    html = output.with_suffix(".html")
    # The page first: a browser finds fonts of its own where the picture may lack one.
    html.write_text(page, encoding="utf-8")
    click.echo(f"{html}: {chosen} occurrences")
    draw_occurrences(output, title=title, occurrences=occurrences, projection=projection, groups=groups)
    listed = "" if len(occurrences) <= LISTED else f"; more than {LISTED} sentences are listed on the page alone"
    click.echo(f"{output}: {chosen} occurrences{listed}")


@plot.command()
@click.argument("store")
@click.argument("first")
@click.argument("second")
@click.option("--output", "-o", type=FILE, required=True)
@click.option("--layer", type=int, help="Whose vectors.  [default: the last]")
def similarity(store: str, first: str, second: str, output: Path, layer: int | None) -> None:
    """Draw the cosine of every token of sentence FIRST with every token of sentence SECOND, given by their ids."""
    opened = FeatureStore.open(store)
    chosen = layer if layer is not None else last_layer(opened)
    rows, columns = opened[first], opened[second]
    if not rows.tokens or not columns.tokens:
        raise ConfigError(f"{first if not rows.tokens else second} has no tokens to compare")
    cosines = similarities(
        list(rows.layers(only=[chosen], dtype=np.float32)[0]), list(columns.layers(only=[chosen], dtype=np.float32)[0])
    )
    title = f"{first} and {second}, layer {chosen}"
    draw_similarities(output, title=title, rows=rows.tokens, columns=columns.tokens, cosines=cosines)
    click.echo(f"{output}: {len(rows.tokens)} by {len(columns.tokens)} tokens")


@plot.command()
@click.argument("results", nargs=-1, required=True, type=FILE)
@click.option("--output", "-o", type=FILE, required=True)
def weights(results: tuple[Path, ...], output: Path) -> None:
    """Draw the layer weights that models have learned, from the result.json of each, as `elmo train -o` writes it."""
    found: dict[str, list[float]] = {}
    for path in results:
        try:
            mixes = json.loads(path.read_text(encoding="utf-8"))["result"]["mixes"]
            found |= {
                f"{path.parent.name}, {place}": [float(w) for w in mix["weights"]] for place, mix in mixes.items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorpusError(f"{path}: no result of `elmo train` can be read ({error!r})") from None
    if not found:
        raise ConfigError("these models have learned no layer weights: they were trained without features")
    draw_weights(output, title="Learned layer weights", weights=found)
    click.echo(f"{output}: {len(found)} mixes")


def _groups(path: Path, occurrences: Sequence[Occurrence]) -> list[str]:
    """The label of each occurrence, by its sentence and token, else by its sentence, else `no label`."""
    labels: dict[tuple[str, ...], str] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            *key, label = line.rstrip("\r").split("\t")
            if len(key) not in (1, 2) or not label:
                raise CorpusError(f"{path}:{number}: expected SENTENCE-ID<tab>LABEL, or with the token's place between")
            labels[tuple(key)] = label
    return [
        labels.get((occurrence.id, str(occurrence.position)), labels.get((occurrence.id,), "no label"))
        for occurrence in occurrences
    ]
