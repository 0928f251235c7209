"""`elmo study`: the tables of the papers with small models, from labelled files to Markdown, CSV and pictures."""

import shlex
from pathlib import Path

import click

from jobs.studies.datasets import DATASETS, Sizes
from jobs.studies.definitions import STUDIES
from jobs.studies.report import write_report
from jobs.studies.runs import PROBED, Runner
from jobs.studies.spec import ELMO, Budget, Scope
from jobs.studies.tables import Result, Table
from jobs.tasks.words import StaticVectors
from pipeline.errors import ConfigError

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("names", nargs=-1, required=True, type=click.Choice([*STUDIES, "all"]))
@click.option("--data", type=FOLDER, required=True, help="Folder with the data sets.")
@click.option("--output", "-o", type=FOLDER, required=True, help="Of tables, and of features and runs to go on from.")
@click.option("--model", help="The English ELMo, as for `elmo dump`.")
@click.option("--model-zh", help="The Chinese ELMo.")
@click.option("--encoder", "encoders", multiple=True, metavar="NAME=MODEL", help="Another English encoder.")
@click.option("--vectors", type=FOLDER, help="Static English vectors: words.txt and vectors.npy.")
@click.option("--dataset", "datasets", multiple=True, type=click.Choice(list(DATASETS)), help="Only these.")
@click.option("--seeds", default=Budget.seeds, show_default=True, help="Runs a cell.")
@click.option("--epochs", default=Budget.epochs, show_default=True, help="At most.")
@click.option("--patience", default=Budget.patience, show_default=True, help="Epochs without a gain.")
@click.option("--hidden", default=Budget.hidden, show_default=True, help="LSTM units a direction.")
@click.option("--learning-rate", default=Budget.learning_rate, show_default=True, help="Of Adam.")
@click.option("--train-sentences", default=Sizes.train_sentences, show_default=True, help="At most; 0 takes all.")
@click.option("--dev-sentences", default=Sizes.dev_sentences, show_default=True, help="At most; 0 takes all.")
@click.option("--sense-sentences", default=0, show_default=True, help="Of SemCor, at most; 0 takes all.")
def study(
    names: tuple[str, ...],
    data: Path,
    output: Path,
    model: str | None,
    model_zh: str | None,
    encoders: tuple[str, ...],
    vectors: Path | None,
    datasets: tuple[str, ...],
    seeds: int,
    epochs: int,
    patience: int,
    hidden: int,
    learning_rate: float,
    train_sentences: int,
    dev_sentences: int,
    sense_sentences: int,
) -> None:
    """Run studies by NAMES, each a table of variants over seeds; what is done is not done again.

    Features are dumped into OUTPUT/features, runs are kept in OUTPUT/runs, and each table is written as soon as it is
    whole: OUTPUT/NAME.md, .csv and .png.
    """
    budget = Budget(
        sizes=Sizes(
            train_sentences=train_sentences or None,
            dev_sentences=dev_sentences or None,
            sense_sentences=sense_sentences or None,
        ),
        seeds=seeds,
        epochs=epochs,
        patience=patience,
        hidden=hidden,
        learning_rate=learning_rate,
    )
    models = _models(model, model_zh, encoders)
    static = StaticVectors.read(vectors) if vectors is not None else None
    runner = Runner(data=data, output=output, models=models, vectors=static, budget=budget, say=click.echo)
    scope = Scope(
        datasets=datasets or tuple(DATASETS),
        encoders={name: "zh" if name == f"{ELMO}-zh" else "en" for name in models},
        layers=runner.layers,
        static=static is not None,
    )
    command = f"elmo study {' '.join(shlex.quote(argument) for argument in _arguments())}"
    for name in STUDIES if "all" in names else dict.fromkeys(names):
        cells = STUDIES[name].cells(scope)
        if not cells:
            raise ConfigError(f"study {name!r} has nothing to compare: give --model, and data sets of its language")
        click.echo(f"{name}: {len(cells)} cells")
        results = []
        for cell in cells:
            count = budget.seeds if cell.spec.seeded else 1
            runs = tuple(runner.run(cell.spec, seed=seed) for seed in range(count))
            results.append(Result(cell=cell, runs=runs))
        costs = {}
        if name == "encoders":
            costs = {encoder: runner.cost(encoder, PROBED) for encoder in models if scope.encoders[encoder] == "en"}
        table = Table(results=tuple(results))
        path = write_report(
            output, name=name, study=STUDIES[name], table=table, budget=budget, costs=costs, command=command
        )
        click.echo(f"{path}\n\n{table.markdown()}\n")


def _models(model: str | None, model_zh: str | None, encoders: tuple[str, ...]) -> dict[str, str]:
    models = {ELMO: model, f"{ELMO}-zh": model_zh}
    found = {name: given for name, given in models.items() if given is not None}
    for encoder in encoders:
        name, mark, path = encoder.partition("=")
        if not mark or not name.isidentifier() or name in models:
            raise ConfigError(f"--encoder {encoder!r}: give NAME=MODEL, the name one word other than {ELMO}")
        found[name] = path
    return found


def _arguments() -> list[str]:
    context = click.get_current_context()
    arguments = []
    for parameter in context.command.params:
        value = context.params[parameter.name or ""]
        if isinstance(parameter, click.Argument):
            arguments += list(value)
        elif context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE:
            for item in value if parameter.multiple else [value]:
                arguments += [parameter.opts[0], str(item)]
    return arguments
