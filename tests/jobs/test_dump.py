"""`elmo dump` with a real model: the numbers, the formats, and what does not change them."""

import contextlib
import gzip
import io
import json
import random
from pathlib import Path

import h5py
import numpy as np
import pytest

from pipeline.reader import FeatureStore
from support.cli import elmo, elmo_process
from support.dumping import lasting_files
from support.paths import GOLDEN

SEEDED = GOLDEN / "seeded"
BASE = SEEDED / "base"
SENTENCES: list[list[str]] = json.loads((SEEDED / "sentences.json").read_text(encoding="utf-8"))


@pytest.fixture
def golden_corpus(tmp_path: Path) -> Path:
    lines = (json.dumps({"id": f"s{n}", "tokens": tokens}) for n, tokens in enumerate(SENTENCES))
    path = tmp_path / "golden.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("shard_format", ["hdf5", "parquet"])
def test_a_store_holds_the_golden_values(
    shard_format: str, golden_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    done = elmo(capsys, "dump", golden_corpus, out, "--model", BASE, "--format", shard_format, "--shard-tokens", "60")
    assert done.code == 0, done.err
    assert elmo(capsys, "verify", out).code == 0
    store = FeatureStore.open(out)
    assert len(store.manifest.shards) > 3
    assert [store[f"s{n}"].tokens for n in range(len(SENTENCES))] == [
        tuple(token.encode("utf-8", "ignore").decode() for token in tokens) for tokens in SENTENCES
    ]
    with h5py.File(BASE / "expected.hdf5") as expected:
        for n in range(len(SENTENCES)):
            np.testing.assert_allclose(store[f"s{n}"].layers(), expected[str(n)][()], atol=1e-5)


@pytest.mark.parametrize("layers", ["top", "average", "0,2"])
def test_stored_layers_are_those_asked_for(
    layers: str, golden_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert elmo(capsys, "dump", golden_corpus, tmp_path / "out", "--model", BASE, "--layers", layers).code == 0
    store = FeatureStore.open(tmp_path / "out")
    with h5py.File(BASE / "expected.hdf5") as expected:
        for n in range(len(SENTENCES)):
            golden, features = expected[str(n)][()], store[f"s{n}"]
            if layers == "average":
                np.testing.assert_allclose(features.column("average"), golden.mean(axis=0), atol=1e-5)
            else:
                numbers = [2] if layers == "top" else [0, 2]
                np.testing.assert_allclose(features.layers(only=numbers), golden[numbers], atol=1e-5)


@pytest.mark.parametrize(("layers", "golden"), [("all", "all"), ("top", "top"), ("average", "average")])
def test_carried_state_and_export_give_what_the_allennlp_command_wrote(
    layers: str, golden: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = BASE / "elmo_command" / "input.txt"
    assert elmo(capsys, "dump", corpus, tmp_path / "out", "--model", BASE, "--carried-state", "3").code == 0
    exported = tmp_path / "export.hdf5"
    done = elmo(capsys, "convert", tmp_path / "out", exported, "--layout", "allennlp", "--layers", layers)
    assert done.code == 0, done.err
    with h5py.File(exported) as ours, h5py.File(BASE / "elmo_command" / f"{golden}.hdf5") as theirs:
        assert set(ours) == set(theirs)
        assert json.loads(ours["sentence_to_index"][0]) == json.loads(theirs["sentence_to_index"][0])
        for name in set(theirs) - {"sentence_to_index"}:
            assert ours[name].dtype == theirs[name].dtype == np.float32
            np.testing.assert_allclose(ours[name][()], theirs[name][()], atol=1e-5)


def test_carried_state_and_export_give_what_bilm_tf_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = BASE / "bilm_dumps" / "input.txt"
    assert elmo(capsys, "dump", corpus, tmp_path / "out", "--model", BASE, "--carried-state", "1").code == 0
    exported = tmp_path / "export.hdf5"
    assert elmo(capsys, "convert", tmp_path / "out", exported, "--layout", "bilm-tf").code == 0
    with h5py.File(exported) as ours, h5py.File(BASE / "bilm_dumps" / "bilm_embeddings.hdf5") as theirs:
        assert set(ours) == set(theirs)
        for name in theirs:
            assert ours[name].shape == theirs[name].shape
            np.testing.assert_allclose(ours[name][()], theirs[name][()], atol=1e-5)


def test_a_sentence_has_its_vectors_whatever_its_neighbours_batch_shard_and_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(0)
    words = ["bank", "river", "play", "the", "ÿ", "苹果", "x" * 60]
    sentences = {f"s{n}": [rng.choice(words) for _ in range(rng.randrange(12))] for n in range(30)}
    reference = None
    settings = [
        ("8192", "20000", "1"),
        ("1", "20000", "1"),
        ("40", "15", "1"),
        ("8192", "30", "2"),
    ]
    for run, (batch_tokens, shard_tokens, workers) in enumerate(settings):
        order = list(sentences)
        rng.shuffle(order)
        corpus = tmp_path / f"{run}.jsonl"
        lines = (json.dumps({"id": identifier, "tokens": sentences[identifier]}) for identifier in order)
        corpus.write_text("\n".join(lines), encoding="utf-8")
        sizes = ["--batch-tokens", batch_tokens, "--shard-tokens", shard_tokens, "--workers", workers]
        done = elmo(capsys, "dump", corpus, tmp_path / f"out{run}", "--model", BASE, *sizes)
        assert done.code == 0, done.err
        store = FeatureStore.open(tmp_path / f"out{run}")
        found = {identifier: store[identifier].layers() for identifier in sentences}
        reference = reference or found
        for identifier, layers in found.items():
            np.testing.assert_allclose(layers, reference[identifier], atol=1e-5)


def test_the_same_job_gives_the_same_bytes_with_any_number_of_workers(golden_corpus: Path, tmp_path: Path) -> None:
    for workers in ("1", "2"):
        out = tmp_path / f"workers{workers}"
        settings = ["--model", str(BASE), "--shard-tokens", "60", "--workers", workers]
        done = elmo_process("dump", golden_corpus, out, *settings)
        assert done.code == 0, done.err
    assert lasting_files(tmp_path / "workers1") == lasting_files(tmp_path / "workers2")


def test_ids_line_ends_compression_and_locale_do_not_change_a_vector(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "café naïve Āda\nthe bank\n"
    for name in ("plain", "windows", "zipped"):
        (tmp_path / name).mkdir()
    (tmp_path / "plain/a.txt").write_bytes(text.encode())
    (tmp_path / "windows/a.txt").write_bytes(text.replace("\n", "\r\n").encode())
    (tmp_path / "zipped/a.txt.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("plain", "windows", "zipped"):
        assert elmo(capsys, "dump", tmp_path / name, tmp_path / f"out-{name}", "--model", BASE).code == 0
    locale = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = elmo_process("dump", "plain", "out-locale", "--model", str(BASE), environment=locale, cwd=tmp_path)
    assert done.code == 0, done.err
    assert lasting_files(tmp_path / "out-locale") == lasting_files(tmp_path / "out-plain")
    plain = FeatureStore.open(tmp_path / "out-plain")
    for name in ("windows", "zipped"):
        other = FeatureStore.open(tmp_path / f"out-{name}")
        for features, expected in zip(other, plain, strict=True):
            np.testing.assert_array_equal(features.layers(), expected.layers())


def test_standard_input_is_a_corpus_and_resumes_like_one(tmp_path: Path) -> None:
    arguments = ("dump", "-", tmp_path / "out", "--model", BASE)
    done = elmo_process(*arguments, stdin=b"one two\n\nthree\n")
    assert done.code == 0, done.err
    assert list(FeatureStore.open(tmp_path / "out").ids()) == ["stdin:1", "stdin:2", "stdin:3"]
    before = lasting_files(tmp_path / "out")
    assert elmo_process(*arguments, stdin=b"one two\n\nthree\n").code == 0
    assert lasting_files(tmp_path / "out") == before
    assert elmo_process(*arguments, stdin=b"something else\n").code == 2


def test_inspect_prints_an_example_that_runs_as_printed(
    golden_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for layers, shape in (("all", "(3, 6, 16)"), ("average", "(6, 16)")):
        out = tmp_path / layers
        assert elmo(capsys, "dump", golden_corpus, out, "--model", BASE, "--layers", layers).code == 0
        shown = elmo(capsys, "inspect", out)
        assert shown.code == 0
        assert f"{len(SENTENCES)} sentences" in shown.out and "'s0'" in shown.out
        example = shown.out.split("To load it:\n\n")[1]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example, "example", "exec"), {})
        expected = shape.replace("6,", f"{len(SENTENCES[0])},", 1)
        assert printed.getvalue().strip() == expected


def test_inspect_shows_one_sentence(golden_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert elmo(capsys, "dump", golden_corpus, tmp_path / "out", "--model", BASE).code == 0
    shown = elmo(capsys, "inspect", tmp_path / "out", "--id", "s0")
    assert shown.code == 0
    assert repr(list(SENTENCES[0])) in shown.out and "golden.jsonl:1" in shown.out
    assert elmo(capsys, "inspect", tmp_path / "out", "--id", "s99").code == 2


def test_a_dry_run_says_the_exact_size_of_the_vectors_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "a.txt"
    corpus.write_text("word\n" * 1000, encoding="utf-8")
    done = elmo(capsys, "dump", corpus, tmp_path / "out", "--model", BASE, "--dry-run")
    assert done.code == 0
    assert f"{1000 * 5 * 8 * 4:,} bytes of vectors" in done.out
    assert not (tmp_path / "out").exists()


def test_cut_tokens_and_marks_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "a.txt"
    corpus.write_text("語" * 17 + " short\nliteral </S> mark\n", encoding="utf-8")
    done = elmo(capsys, "dump", corpus, tmp_path / "out", "--model", BASE)
    assert "truncated tokens: 1" in done.out
    assert "boundary" in done.out
    assert len(FeatureStore.open(tmp_path / "out")["a.txt:2"].tokens) == 3
