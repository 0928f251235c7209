"""The pictures: occurrences in the plane, similarities, layer weights, and the tables of studies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jobs.occurrences import Occurrence
from jobs.pictures.fonts import drawable, use_fonts_for
from jobs.pictures.plotting import COLOURS, pyplot, save
from jobs.pictures.projection import Projection

LISTED = 40
LINE = 78


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar of a chart: a value and, where there are several runs, their spread."""

    value: float
    spread: float | None = None


def draw_occurrences(
    path: Path,
    *,
    title: str,
    occurrences: Sequence[Occurrence],
    projection: Projection,
    groups: Sequence[str] | None,
) -> None:
    """A numbered point for each occurrence, coloured by group, beside the sentences under the same numbers.

    More than `LISTED` sentences are not listed; the HTML page has them all.

    Raises:
        MissingGlyphsError: No installed font can draw the sentences.
    """
    listed = len(occurrences) <= LISTED
    lines = [drawable("{}[{}]{}".format(*spaced(occurrence.around(LINE)))) for occurrence in occurrences]
    colours, names = group_colours(groups, len(occurrences))
    use_fonts_for([title, *names, *(lines if listed else [])])
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6.5, max(5.5, 0.2 * len(lines) if listed else 0)))
    axes.scatter(*projection.points.T, c=colours, s=36, linewidths=0)
    if listed:
        for number, (x, y) in enumerate(projection.points, 1):
            axes.annotate(str(number), (x, y), xytext=(4, 3), textcoords="offset points", fontsize=7)
        for number, (line, colour) in enumerate(zip(lines, colours, strict=True)):
            height = 1 - (number + 0.5) / max(len(lines), 24)
            axes.plot(1.05, height, "o", color=colour, markersize=5, transform=axes.transAxes, clip_on=False)
            axes.text(1.1, height, str(number + 1), ha="right", va="center", fontsize=7, transform=axes.transAxes)
            axes.text(1.115, height, line, va="center", fontsize=7, transform=axes.transAxes)
    for name, colour in names.items():
        axes.scatter([], [], c=colour, label=name)
    if names:
        axes.legend(
            fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=min(3, len(names)), frameon=False
        )
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(f"first component, {projection.explained[0]:.0%} of the variance", fontsize=8)
    axes.set_ylabel(f"second component, {projection.explained[1]:.0%}", fontsize=8)
    axes.tick_params(labelsize=7)
    save(figure, path)


def group_colours(groups: Sequence[str] | None, count: int) -> tuple[list[str], dict[str, str]]:
    """A colour for each of `count` things, by its group if there are any, and the colour of each group in order."""
    if groups is None:
        return [COLOURS[number % len(COLOURS)] for number in range(count)], {}
    names = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(dict.fromkeys(groups))}
    return [names[group] for group in groups], names


def spaced(parts: tuple[str, str, str]) -> tuple[str, str, str]:
    """Before, word and after with a space between each, none at the ends of the line."""
    before, word, after = parts
    return f"{before} " if before else "", word, f" {after}" if after else ""


def draw_similarities(
    path: Path, *, title: str, rows: Sequence[str], columns: Sequence[str], cosines: NDArray[np.float64]
) -> None:
    """A heat map of cosines (rows, columns) with the tokens along both sides.

    Raises:
        MissingGlyphsError: No installed font can draw the tokens.
    """
    rows, columns = [drawable(token) for token in rows], [drawable(token) for token in columns]
    use_fonts_for([title, *rows, *columns])
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(2.2 + 0.36 * len(columns), 1.8 + 0.3 * len(rows)))
    image = axes.imshow(cosines, cmap="viridis", vmin=min(0.0, float(cosines.min())), vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    for row, column in np.ndindex(cosines.shape):
        value = cosines[row, column]
        colour = "black" if value > 0.6 else "white"
        axes.text(column, row, f"{value:.2f}".replace("0.", "."), ha="center", va="center", fontsize=6, color=colour)
    axes.set_title(title, fontsize=10)
    figure.colorbar(image, ax=axes, label="cosine", shrink=0.8)
    save(figure, path)


def draw_weights(path: Path, *, title: str, weights: Mapping[str, Sequence[float]]) -> None:
    """Learned layer weights, a group of bars for each model; as in the paper, those below 1/3 and above 2/3 are marked.

    A bar below 1/3 is hatched, one above 2/3 has a heavy outline.
    """
    use_fonts_for([title, *weights])
    plt = pyplot()
    layers = max(len(values) for values in weights.values())
    figure, axes = plt.subplots(figsize=(2.5 + 0.32 * layers * len(weights), 3.6))
    for place, values in enumerate(weights.values()):
        for layer, value in enumerate(values):
            x = place + (layer - (layers - 1) / 2) * 0.8 / layers
            axes.bar(
                x,
                value,
                width=0.76 / layers,
                color=COLOURS[layer % len(COLOURS)],
                hatch="///" if value < 1 / 3 else None,
                edgecolor="white" if value < 1 / 3 else "black",
                linewidth=2.5 if value > 2 / 3 else 0.0,
                label=f"layer {layer}" if place == 0 else None,
            )
            axes.text(x, value + 0.01, f"{value:.2f}", ha="center", fontsize=6)
    for mark in (1 / 3, 2 / 3):
        axes.axhline(mark, color="#777777", linewidth=0.7, linestyle="--")
    axes.set_xticks(range(len(weights)), list(weights), fontsize=7, rotation=20, ha="right", rotation_mode="anchor")
    axes.set_ylim(0, max(0.75, *(value + 0.08 for values in weights.values() for value in values)))
    axes.set_ylabel("weight after the softmax", fontsize=8)
    axes.set_title(f"{title}\nhatched: below 1/3; outlined: above 2/3", fontsize=9)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    save(figure, path)


def draw_bars(path: Path, *, title: str, unit: str, bars: Mapping[str, Mapping[str, Bar]]) -> None:
    """Groups of bars: for each row its columns, with the spread as an error bar."""
    columns = list(dict.fromkeys(column for row in bars.values() for column in row))
    use_fonts_for([title, unit, *bars, *columns])
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(2.5 + 0.3 * len(columns) * len(bars), 3.6))
    for number, column in enumerate(columns):
        places = [place for place, row in enumerate(bars.values()) if column in row]
        found = [row[column] for row in bars.values() if column in row]
        x = [place + (number - (len(columns) - 1) / 2) * 0.8 / len(columns) for place in places]
        axes.bar(
            x,
            [bar.value for bar in found],
            width=0.76 / len(columns),
            yerr=[bar.spread or 0.0 for bar in found],
            color=COLOURS[number % len(COLOURS)],
            label=column,
            error_kw={"linewidth": 0.8, "capsize": 2},
        )
        for place, bar in zip(x, found, strict=True):
            axes.text(place, bar.value + (bar.spread or 0.0) + 0.8, f"{bar.value:.1f}", ha="center", fontsize=6)
    axes.set_xticks(range(len(bars)), list(bars), fontsize=7, rotation=20, ha="right", rotation_mode="anchor")
    axes.set_ylabel(unit, fontsize=8)
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    save(figure, path)


def draw_curves(
    path: Path, *, title: str, unit: str, curves: Mapping[str, Mapping[str, Sequence[tuple[float, Bar]]]]
) -> None:
    """For each panel its curves over the number of training sentences, with the spread as error bars."""
    use_fonts_for([title, unit, *curves, *(name for panel in curves.values() for name in panel)])
    plt = pyplot()
    figure, panels = plt.subplots(1, len(curves), figsize=(3.2 * len(curves), 3.2), squeeze=False)
    for axes, (panel, lines) in zip(panels[0], curves.items(), strict=True):
        for number, (name, points) in enumerate(lines.items()):
            axes.errorbar(
                [x for x, _ in points],
                [bar.value for _, bar in points],
                yerr=[bar.spread or 0.0 for _, bar in points],
                marker="o",
                markersize=4,
                capsize=2,
                color=COLOURS[number % len(COLOURS)],
                label=name,
            )
        sizes = sorted({x for points in lines.values() for x, _ in points})
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
        axes.minorticks_off()
        axes.set_title(panel, fontsize=9)
        axes.set_xlabel("training sentences", fontsize=8)
        axes.set_ylabel(unit, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.legend(fontsize=7, frameon=False)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    save(figure, path)
