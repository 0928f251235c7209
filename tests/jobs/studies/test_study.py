"""Studies from labelled files to tables: whole runs on tiny data, resumption, and the arithmetic of the tables."""

import csv
from pathlib import Path

import pytest

from jobs.studies.datasets import Sizes, chosen
from jobs.studies.definitions import STUDIES
from jobs.studies.report import describe_budget
from jobs.studies.runs import RunRecord
from jobs.studies.spec import Budget, Cell, Expectation, Scope, Spec
from jobs.studies.tables import Result, Table
from pipeline.errors import ConfigError
from support.cli import elmo
from support.tasks import tagged_sentences, tiny_model, write_tagged


def result(row: str, column: str, scores: list[float], *, split: str = "test") -> Result:
    cell = Cell(
        row=row, column=column, spec=Spec(method="model", dataset="pos"), split="dev" if split == "dev" else "test"
    )
    runs = (RunRecord(measure="F1", scores={"dev": 0.0, split: score}, details={}, seconds=1.0) for score in scores)
    return Result(cell=cell, runs=tuple(runs))


def test_a_cell_shows_mean_and_sample_deviation() -> None:
    table = Table(
        results=(
            result("a", "x", [0.1, 0.2, 0.6]),
            result("a", "y", [0.5]),
            result("b", "y", [0.25, 0.35], split="dev"),
        )
    )
    assert table.markdown().splitlines() == [
        "| | x | y |",
        "|---|---|---|",
        "| a (F1) | 30.0 ± 26.5 | 50.0 |",
        "| b (F1) |  | 30.0 ± 7.1 |",
    ]
    lines = list(csv.DictReader(table.csv().splitlines()))
    assert [float(line["score"]) for line in lines] == [0.1, 0.2, 0.6, 0.5, 0.25, 0.35]
    assert [line["seed"] for line in lines] == ["0", "1", "2", "0", "0", "1"]


def test_orders_of_the_papers_are_told_to_hold_or_not() -> None:
    table = Table(
        results=(
            result("up", "x", [0.50, 0.52]),
            result("up", "y", [0.40, 0.42]),
            result("down", "x", [0.10, 0.12]),
            result("down", "y", [0.40, 0.42]),
            result("near", "x", [0.40, 0.50]),
            result("near", "y", [0.42, 0.44]),
            result("half", "x", [0.4]),
        )
    )
    (verdict,) = table.verdicts([Expectation(better="x", worse="y"), Expectation(better="x", worse="z")])
    assert "holds on up (+10.0)" in verdict
    assert "does not hold on down (-30.0)" in verdict
    assert "is within the spread on near (+2.0)" in verdict
    assert "half" not in verdict


def test_a_table_names_the_budget_of_the_runs_it_has() -> None:
    budget = Budget(sizes=Sizes(train_sentences=1200, dev_sentences=None, sense_sentences=50), hidden=7)
    assert describe_budget(budget, methods={"probe", "senses"}) == (
        "Mean ± standard deviation of 3 seeds; at most 1,200 training and all development sentences, for every column "
        "alike. Of SemCor, 50 sentences."
    )
    assert "7 LSTM units" in describe_budget(budget, methods={"model"})


def test_a_choice_of_sentences_is_always_the_same_and_smaller_ones_are_part_of_it() -> None:
    everything = [str(number) for number in range(100)]
    ten, thirty = chosen(everything, 10), chosen(everything, 30)
    assert len(ten) == 10
    assert set(ten) < set(thirty)
    assert list(thirty) == [sentence for sentence in everything if sentence in thirty]
    assert chosen(everything, None) is everything
    with pytest.raises(ConfigError):
        Sizes(train_sentences=0)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_cells_of_all_its_columns_and_no_cell_twice(name: str) -> None:
    scope = Scope(
        datasets=("pos", "wnut", "wikigold", "polarity", "sst", "pos-zh", "ner-zh"),
        encoders={"elmo": "en", "elmo-zh": "zh", "other": "en"},
        layers=lambda encoder: 1 if encoder == "other" else 3,
        static=True,
    )
    study = STUDIES[name]
    cells = study.cells(scope)
    places = [(cell.row, cell.column) for cell in cells]
    assert len(set(places)) == len(places) > 0
    columns = {column for _, column in places}
    assert {side for expected in study.expectations for side in (expected.better, expected.worse)} <= columns
    chinese = [cell for cell in cells if cell.spec.dataset.endswith("-zh")]
    assert all(cell.spec.encoder in (None, "elmo-zh") and cell.spec.words == "learned" for cell in chinese)


def test_a_study_runs_whole_and_does_nothing_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data" / "pos-ud-english-ewt"
    for part in ("train", "dev", "test"):
        write_tagged(data / f"{part}.tsv", tagged_sentences(12))
    arguments: list[str | Path] = [
        "study",
        "layers",
        "weights",
        "--data",
        tmp_path / "data",
        "-o",
        tmp_path / "out",
        "--dataset",
        "pos",
    ]
    arguments += ["--model", tiny_model(tmp_path / "model"), "--seeds", "2", "--epochs", "2", "--hidden", "4"]
    first = elmo(capsys, *arguments)
    assert first.code == 0, first.err
    assert first.out.count(", seed ") == 10
    runs = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()}
    tables = {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    assert sorted(path.name for path in tables) == [
        f"{n}.{s}" for n in ("layers", "weights") for s in ("csv", "md", "png")
    ]
    again = elmo(capsys, *arguments)
    assert again.code == 0, again.err
    assert again.out.count(", seed ") == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()} == runs
    assert {path: path.read_bytes() for path in tables} == tables
    markdown = (tmp_path / "out" / "weights.md").read_text(encoding="utf-8")
    assert "POS, UD English EWT, input" in markdown
    assert "--seeds 2" in markdown
    more = elmo(capsys, *["3" if argument == "2" else argument for argument in arguments])
    assert more.code == 0, more.err
    assert more.out.count(", seed ") > 0


def test_another_model_or_other_labels_are_other_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data" / "pos-ud-english-ewt"
    for part in ("train", "dev", "test"):
        write_tagged(data / f"{part}.tsv", tagged_sentences(6))
    arguments: list[str | Path] = [
        "study",
        "gain",
        "--data",
        tmp_path / "data",
        "-o",
        tmp_path / "out",
        "--dataset",
        "pos",
    ]
    arguments += ["--model", tiny_model(tmp_path / "model"), "--seeds", "1", "--epochs", "1", "--hidden", "4"]
    assert elmo(capsys, *arguments).out.count(", seed ") == 2
    relabelled = (data / "train.tsv").read_text(encoding="utf-8").replace("NOUN", "NAME")
    (data / "train.tsv").write_text(relabelled, encoding="utf-8")
    assert elmo(capsys, *arguments).out.count(", seed ") == 2
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 4


def test_a_study_with_nothing_to_compare_says_what_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    done = elmo(capsys, "study", "gain", "--data", tmp_path / "data", "-o", tmp_path / "out")
    assert done.code == 2
    assert "--model" in done.err
