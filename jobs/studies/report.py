"""A study on disk: Markdown with the table and what to make of it, CSV with every run, and a picture."""

from pathlib import Path
from statistics import mean

from jobs.pictures.charts import Bar, draw_bars, draw_curves, draw_weights
from jobs.studies.features import Cost
from jobs.studies.spec import Budget, Method, Study
from jobs.studies.tables import Result, Table


def write_report(
    output: Path, *, name: str, study: Study, table: Table, budget: Budget, costs: dict[str, Cost], command: str
) -> Path:
    """Writes `NAME.md`, `NAME.csv` and `NAME.png` and returns the first.

    Args:
        output: The folder.
        name: Of the study.
        study: What was compared.
        table: What came of it.
        budget: Of the runs.
        costs: Of the encoders that the study is to be weighed against; may be empty.
        command: That repeats it.
    """
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{name}.csv").write_text(table.csv(), encoding="utf-8")
    _draw(output / f"{name}.png", study, table)
    parts = [
        f"### {study.title}",
        f"{study.what} {describe_budget(budget, methods={result.cell.spec.method for result in table.results})}",
        table.markdown(),
        *table.verdicts(study.expectations),
    ]
    if study.plot == "weights":
        parts.append(_weights_table(table))
    if costs:
        parts.append(_costs_table(costs))
    parts += [f"![{study.title}]({name}.png)", f"Made by `{command}`; every run is in [{name}.csv]({name}.csv)."]
    path = output / f"{name}.md"
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def describe_budget(budget: Budget, *, methods: set[Method]) -> str:
    """The budget in a sentence, as far as runs of these methods have it."""
    sizes = budget.sizes
    train = f"at most {sizes.train_sentences:,}" if sizes.train_sentences else "all"
    dev = f"at most {sizes.dev_sentences:,}" if sizes.dev_sentences else "all"
    parts = [f"Mean ± standard deviation of {budget.seeds} seeds; {train} training and {dev} development sentences"]
    if "model" in methods:
        parts.append(
            f"{budget.hidden} LSTM units a direction, at most {budget.epochs} epochs (patience {budget.patience}), "
            f"Adam at {budget.learning_rate:g}"
        )
    parts.append("for every column alike")
    corpus = f"{sizes.sense_sentences:,} sentences" if sizes.sense_sentences else "all"
    return ", ".join(parts) + "." + (f" Of SemCor, {corpus}." if "senses" in methods else "")


def mean_weights(result: Result) -> dict[str, list[float]]:
    """For each place, the layer weights averaged over the runs of a cell."""
    places = result.runs[0].details["mixes"]
    return {
        place: [
            mean(layer) for layer in zip(*(run.details["mixes"][place]["weights"] for run in result.runs), strict=True)
        ]
        for place in places
    }


def _draw(path: Path, study: Study, table: Table) -> None:
    unit = "score, per cent"
    if study.plot == "weights":
        draw_weights(path, title=study.title, weights=_all_weights(table))
    elif study.plot == "curve":
        draw_curves(path, title=study.title, unit=unit, curves=_curves(table))
    else:
        bars: dict[str, dict[str, Bar]] = {}
        for result in table.results:
            bars.setdefault(result.cell.row, {})[result.cell.column] = _bar(result)
        draw_bars(path, title=study.title, unit=unit, bars=bars)


def _bar(result: Result) -> Bar:
    return Bar(value=result.mean, spread=result.spread)


def _curves(table: Table) -> dict[str, dict[str, list[tuple[float, Bar]]]]:
    curves: dict[str, dict[str, list[tuple[float, Bar]]]] = {}
    for result in table.results:
        panel = curves.setdefault(result.cell.row.rsplit(",", 1)[0], {})
        point = (float(result.runs[0].details["train_sentences"]), _bar(result))
        panel.setdefault(result.cell.column, []).append(point)
    return curves


def _all_weights(table: Table) -> dict[str, list[float]]:
    return {
        f"{result.cell.row}, {place}": weights
        for result in table.results
        for place, weights in mean_weights(result).items()
    }


def _weights_table(table: Table) -> str:
    weights = _all_weights(table)
    layers = range(max(len(values) for values in weights.values()))
    lines = [f"| | {' | '.join(f'layer {layer}' for layer in layers)} |", f"|---|{'---|' * len(layers)}"]
    lines += [f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |" for name, values in weights.items()]
    return "\n".join(lines)


def _costs_table(costs: dict[str, Cost]) -> str:
    lines = ["| encoder | numbers a token | bytes a token | encoding, ms a token |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {cost.width:,} | {cost.bytes:,.0f} | {cost.milliseconds:.2f} |" for name, cost in costs.items()
    ]
    return "\n".join(lines)
