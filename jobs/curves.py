"""The curve of a training, from its record."""

from __future__ import annotations

import json
from pathlib import Path

from elmo_model.pretraining.session import METRICS_FILE
from jobs.pictures.plotting import COLOURS, pyplot, save

CURVE_FILE = "curve.png"


def draw_curve(folder: Path) -> Path:
    """Draws loss and validation perplexity against tokens read, into the folder of a run; the file written.

    Raises:
        ConfigError: Matplotlib is not installed.
    """
    plt = pyplot()
    rows = [json.loads(line) for line in (folder / METRICS_FILE).read_text(encoding="utf-8").splitlines()]
    training = [row for row in rows if row["kind"] == "train"]
    validation = [row for row in rows if row["kind"] == "validation"]
    figure, axes = plt.subplots(figsize=(7, 4))
    name = "sampled_loss" if any("sampled_loss" in row for row in training) else "loss"
    axes.plot([row["tokens"] / 1e6 for row in training], [row[name] for row in training], color=COLOURS[0])
    axes.set_xlabel("tokens read, millions")
    axes.set_ylabel(f"{name.replace('_', ' ')}, nats", color=COLOURS[0])
    if validation:
        right = axes.twinx()
        right.spines["right"].set_visible(True)
        right.plot(
            [row["tokens"] / 1e6 for row in validation],
            [row["mean"] for row in validation],
            color=COLOURS[3],
            marker="o",
        )
        right.set_yscale("log")
        for formatter in (right.yaxis.set_major_formatter, right.yaxis.set_minor_formatter):
            formatter(plt.FuncFormatter(lambda value, _: f"{value:g}"))
        right.set_ylabel("validation perplexity", color=COLOURS[3])
    save(figure, folder / CURVE_FILE)
    return folder / CURVE_FILE
