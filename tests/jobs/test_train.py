"""`elmo train` and `elmo plot` as a user meets them: from labelled files through a store to results and pictures."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from support.cli import Result, elmo, elmo_process
from support.tasks import tagged_sentences, tiny_model, write_tagged


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train, dev and test files of one tagging task."""
    folder = tmp_path_factory.mktemp("task")
    for name, count in (("train", 24), ("dev", 8), ("test", 10)):
        write_tagged(folder / f"{name}.tsv", tagged_sentences(count))
    return folder


@pytest.fixture(scope="module")
def store(task: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features of all sentences, made by the documented commands."""
    folder = tmp_path_factory.mktemp("features")
    files = [task / f"{name}.tsv" for name in ("train", "dev", "test")]
    corpus = folder / "corpus.jsonl"
    prepared = elmo_process("train", "prepare", "--format", "tags", *files, "-o", corpus)
    assert prepared.code == 0, prepared.err
    assert "42 sentences" in prepared.out
    done = elmo_process("dump", corpus, folder / "features", "--model", tiny_model(folder / "model"))
    assert done.code == 0, done.err
    return folder / "features"


def files_of(task: Path) -> list[str | Path]:
    return ["--train", task / "train.tsv", "--dev", task / "dev.tsv", "--test", task / "test.tsv"]


def trained(capsys: pytest.CaptureFixture[str], task: Path, *options: str | Path) -> Result:
    small = ("--epochs", "3", "--hidden", "8", "--character-filters", "0", "--word-dim", "8")
    return elmo(capsys, "train", "tagging", *files_of(task), *small, *options)


def test_a_tagger_is_trained_on_features_and_its_layer_weights_can_be_drawn(
    task: Path, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for name in ("one", "again"):
        result = trained(capsys, task, "--features", store, "--inject", "both", "-o", tmp_path / name)
        assert result.code == 0, result.err
        runs.append(result.out)
    assert runs[0] == runs[1]
    assert "accuracy: dev " in runs[0]
    assert (tmp_path / "one" / "result.json").read_bytes() == (tmp_path / "again" / "result.json").read_bytes()
    record = json.loads((tmp_path / "one" / "result.json").read_text(encoding="utf-8"))
    weights = load_file(tmp_path / "one" / "model.safetensors")
    for place, mix in record["result"]["mixes"].items():
        raw = np.exp(weights[f"encoder.mixes.{place}.raw_weights"])
        np.testing.assert_allclose(mix["weights"], raw / raw.sum(), rtol=1e-5)
        assert mix["gamma"] == pytest.approx(float(weights[f"encoder.mixes.{place}.gamma"]))
    drawn = elmo(capsys, "plot", "weights", tmp_path / "one" / "result.json", "-o", tmp_path / "w.png")
    assert drawn.code == 0, drawn.err
    assert (tmp_path / "w.png").read_bytes().startswith(b"\x89PNG")


def test_a_baseline_needs_no_store_and_has_no_weights_to_draw(
    task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = trained(capsys, task, "-o", tmp_path / "base")
    assert result.code == 0, result.err
    assert "layer weights" not in result.out
    drawn = elmo(capsys, "plot", "weights", tmp_path / "base" / "result.json", "-o", tmp_path / "w.png")
    assert drawn.code == 2
    assert "without features" in drawn.err


def test_a_classifier_reads_labels_or_trees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.tsv").write_text("1\tgood film\n0\tbad film\n" * 6, encoding="utf-8")
    (tmp_path / "a.trees.txt").write_text("(3 (2 good) (2 film))\n(1 (1 bad) (2 film))\n" * 6, encoding="utf-8")
    for name in ("a.tsv", "a.trees.txt"):
        options: list[str | Path] = [
            "--train",
            tmp_path / name,
            "--dev",
            tmp_path / name,
            "--epochs",
            "30",
            "--learning-rate",
            "0.02",
        ]
        result = elmo(capsys, "train", "classification", *options)
        assert result.code == 0, result.err
        assert "accuracy: dev 100.00, of epoch" in result.out


def test_features_of_other_sentences_are_refused_by_name(
    task: Path, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.tsv").write_text("the\tDET\ncat\tNOUN\n", encoding="utf-8")
    options: list[str | Path] = ["--dev", task / "dev.tsv", "--features", store]
    result = elmo(capsys, "train", "tagging", "--train", tmp_path / "train.tsv", *options)
    assert result.code == 2
    assert "'train.tsv:1' has 2 labelled tokens but features for 1" in result.err


def test_a_probe_runs_on_a_layer_or_on_static_vectors(
    task: Path, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = elmo(capsys, "train", "probe", *files_of(task), "--features", store, "--layer", "0", "--epochs", "2000")
    assert result.code == 0, result.err
    assert "accuracy: dev 100.00" in result.out
    (tmp_path / "words.txt").write_text("cat\nthe\n", encoding="utf-8")
    np.save(tmp_path / "vectors.npy", np.eye(2, dtype=np.float16))
    assert elmo(capsys, "train", "probe", *files_of(task), "--vectors", tmp_path).code == 0
    both = elmo(capsys, "train", "probe", *files_of(task), "--features", store)
    assert both.code == 2
    assert "--layer" in both.err


def test_senses_are_scored_beside_the_first_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = {"id": "c", "tokens": ["cat"], "lemmas": ["cat"], "senses": [[0, "cat%1:05:00::"]]}
    (tmp_path / "c.jsonl").write_text(json.dumps(line), encoding="utf-8")
    line |= {"id": "t", "senses": [[0, "i", ["cat%1:05:00::"]]]}
    (tmp_path / "t.jsonl").write_text(json.dumps(line), encoding="utf-8")
    (tmp_path / "first.tsv").write_text("cat\tNOUN\tcat%1:18:01::\n", encoding="utf-8")
    (tmp_path / "words.txt").write_text("cat\n", encoding="utf-8")
    np.save(tmp_path / "vectors.npy", np.ones((1, 2), dtype=np.float16))
    files: list[str | Path] = [
        "--train",
        tmp_path / "c.jsonl",
        "--test",
        tmp_path / "t.jsonl",
        "--first-senses",
        tmp_path / "first.tsv",
    ]
    result = elmo(capsys, "train", "wsd", *files, "--vectors", tmp_path)
    assert result.code == 0, result.err
    assert "t.jsonl: F1 100.0 (first sense 0.0), 1 words, 0 of lemmas" in result.out


def test_a_word_and_two_sentences_are_drawn_from_a_store(
    task: Path, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "labels.tsv"
    prepared = elmo(
        capsys, "train", "prepare", "--format", "tags", task / "train.tsv", "-o", tmp_path / "c", "--labels", labels
    )
    assert prepared.code == 0, prepared.err
    assert "train.tsv:21\t0\tNOUN\n" in labels.read_text(encoding="utf-8")
    labels.write_text("train.tsv:21\tsentence\ntrain.tsv:21\t0\tword\n", encoding="utf-8")
    word = elmo(capsys, "plot", "word", store, "cat", "-o", tmp_path / "cat.png", "--labels", labels)
    assert word.code == 0, word.err
    page = (tmp_path / "cat.html").read_text(encoding="utf-8")
    assert "no label" in page
    assert "● word" in page
    assert "● sentence" not in page
    assert (tmp_path / "cat.png").stat().st_size > 10_000
    pair = elmo(capsys, "plot", "similarity", store, "train.tsv:15", "train.tsv:21", "-o", tmp_path / "pair.png")
    assert pair.code == 0, pair.err
    assert (tmp_path / "pair.png").stat().st_size > 5_000
    absent = elmo(capsys, "plot", "similarity", store, "train.tsv:15", "nowhere", "-o", tmp_path / "x.png")
    assert absent.code == 2
    assert "'nowhere'" in absent.err
    assert elmo(capsys, "plot", "word", store, "cat", "-o", tmp_path / "cat.svg").code == 2
