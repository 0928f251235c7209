"""What a training tells while it runs: lines on the terminal, and TensorBoard's files if that is installed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from elmo_model.pretraining.session import Row

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

_PLOTTED = (
    "sampled_loss",
    "loss",
    "gradient_norm",
    "learning_rate",
    "tokens_per_second",
    "mean",
    "forward",
    "backward",
)


class TrainingDisplay:
    """Shows the rows of a session.

    Args:
        folder: Of the run; TensorBoard's files go into `tensorboard` in it.
        enabled: False shows nothing.
    """

    def __init__(self, folder: Path, *, enabled: bool) -> None:
        self._enabled = enabled
        self._board = _board(folder / "tensorboard") if enabled else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._board is not None:
            self._board.close()

    def show(self, row: Row) -> None:
        """Shows a row."""
        if not self._enabled:
            return
        click.echo(describe(row), err=True)
        if self._board is not None:
            for name in _PLOTTED:
                if name in row:
                    self._board.add_scalar(f"{row['kind']}/{name}", row[name], row["step"])


def describe(row: Row) -> str:
    """A row as a line for people."""
    start = f"step {row['step']:,}  epoch {row['epoch'] + 1}  {row['tokens'] / 1e6:.2f} M tokens"
    if row["kind"] == "skip":
        return f"{start}  step skipped: {row['reason']}"
    if row["kind"] == "validation":
        directions = ", ".join(f"{name} {row[name]:.2f}" for name in ("forward", "backward") if name in row)
        return f"{start}  validation perplexity {row['mean']:.2f} ({directions})"
    loss = f"sampled loss {row['sampled_loss']:.3f}" if "sampled_loss" in row else f"loss {row['loss']:.3f}"
    left = max(0.0, row["seconds"] / max(row["progress"], 1e-9) - row["seconds"])
    return f"{start}  {loss}  {row['tokens_per_second']:,.0f} tokens/s  {timedelta(seconds=round(left))} left"


def _board(folder: Path) -> SummaryWriter | None:
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an optional library
    except ImportError:
        return None
    return SummaryWriter(str(folder))
