"""Results of a study: mean and spread of each cell, as Markdown and CSV, and held against the orders of the papers."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from jobs.studies.runs import RunRecord
from jobs.studies.spec import Cell, Expectation


@dataclass(frozen=True, kw_only=True)
class Result:
    """A cell with its runs, one a seed."""

    cell: Cell
    runs: tuple[RunRecord, ...]

    @property
    def scores(self) -> list[float]:
        """The score of each run, in per cent."""
        return [100 * run.scores[self.cell.split] for run in self.runs]

    @property
    def mean(self) -> float:
        """Over the runs, in per cent."""
        return mean(self.scores)

    @property
    def spread(self) -> float | None:
        """The standard deviation of the runs, in points; None of a single run."""
        return stdev(self.scores) if len(self.runs) > 1 else None

    def shown(self) -> str:
        """Mean and spread as the tables have them."""
        return f"{self.mean:.1f}" if self.spread is None else f"{self.mean:.1f} ± {self.spread:.1f}"


@dataclass(frozen=True, kw_only=True)
class Table:
    """The results of a study by row and column."""

    results: tuple[Result, ...]

    @property
    def rows(self) -> list[str]:
        """In the order of the cells."""
        return list(dict.fromkeys(result.cell.row for result in self.results))

    @property
    def columns(self) -> list[str]:
        """In the order of the cells."""
        return list(dict.fromkeys(result.cell.column for result in self.results))

    def at(self, row: str, column: str) -> Result | None:
        """The result of a cell; None for one that the study leaves empty."""
        for result in self.results:
            if (result.cell.row, result.cell.column) == (row, column):
                return result
        return None

    def markdown(self) -> str:
        """The table in Markdown, a line a row."""
        lines = [f"| | {' | '.join(self.columns)} |", f"|---|{'---|' * len(self.columns)}"]
        for row in self.rows:
            found = [self.at(row, column) for column in self.columns]
            measures = {run.measure for result in found if result is not None for run in result.runs}
            name = f"{row} ({measures.pop()})" if len(measures) == 1 else row
            shown = [result.shown() if result is not None else "" for result in found]
            lines.append(f"| {name} | {' | '.join(shown)} |")
        return "\n".join(lines)

    def csv(self) -> str:
        """Every run on a line of its own; runs without a seed count as seed 0."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", "column", "seed", "split", "measure", "score", "best_epoch", "train_sentences"])
        for result in self.results:
            for seed, run in enumerate(result.runs):
                place = [result.cell.row, result.cell.column, seed, result.cell.split, run.measure]
                details = [run.details.get("best_epoch", ""), run.details.get("train_sentences", "")]
                writer.writerow([*place, f"{run.scores[result.cell.split]:.6f}", *details])
        return file.getvalue()

    def verdicts(self, expectations: Sequence[Expectation]) -> list[str]:
        """For each order of the papers, a sentence on the rows where it came out and where it didn't."""
        sentences = []
        for expected in expectations:
            outcomes: dict[str, list[str]] = {"holds": [], "does not hold": [], "is within the spread": []}
            for row in self.rows:
                better, worse = self.at(row, expected.better), self.at(row, expected.worse)
                if better is not None and worse is not None:
                    outcomes[_outcome(better, worse)].append(f"{row} ({better.mean - worse.mean:+.1f})")
            told = "; ".join(f"{outcome} on {', '.join(rows)}" for outcome, rows in outcomes.items() if rows)
            if told:
                sentences.append(f"*{expected.better}* above *{expected.worse}*, as in the papers: {told}.")
        return sentences


def _outcome(better: Result, worse: Result) -> str:
    difference = better.mean - worse.mean
    if abs(difference) <= (better.spread or 0.0) + (worse.spread or 0.0):
        return "is within the spread"
    return "holds" if difference > 0 else "does not hold"
