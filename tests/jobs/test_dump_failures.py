"""What a dump refuses, what it survives, and what it leaves behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from pipeline.config import CorpusConfig, EncodeConfig, StoreConfig
from pipeline.errors import (
    ConfigError,
    DeviceLostError,
    FailedSentenceError,
    FingerprintError,
    OutputInUseError,
    StorageError,
    StoreError,
    TooManyFailuresError,
)
from pipeline.reader import FeatureStore
from pipeline.storage import Folder
from pipeline.verification import verify
from support.cli import Result, elmo
from support.dumping import fake_dump, lasting_files, write_corpus
from support.fakes import FakeEncoderFactory, fake_vector
from support.paths import GOLDEN, TESTS

BASE = GOLDEN / "seeded" / "base"


def corpus_of(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("shard_format", ["hdf5", "parquet"])
def test_one_sentence_that_fails_is_listed_and_the_rest_is_written(shard_format: str, tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, *["fine words"] * 4, "one BOOM here", *["more words"] * 5)
    store_config = StoreConfig(shard_format=shard_format)  # type: ignore[arg-type]
    manifest = fake_dump(corpus, tmp_path / "out", store=store_config)
    assert (manifest.sentences, manifest.failed) == (10, 1)
    assert verify(Folder(tmp_path / "out")).ok

    (line,) = (tmp_path / "out/failures/00000.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {
        "id": "corpus.txt:5",
        "line": 5,
        "reason": "RuntimeError: boom",
        "source": "corpus.txt",
    }
    store = FeatureStore.open(tmp_path / "out")
    with pytest.raises(FailedSentenceError, match=r"corpus\.txt:5"):
        store["corpus.txt:5"]
    assert [features.id for features in store] == [f"corpus.txt:{n}" for n in range(1, 11) if n != 5]
    np.testing.assert_array_equal(
        store["corpus.txt:6"].column("forward_1")[1], fake_vector("forward_1", ["more", "words"], 1)
    )


@pytest.mark.parametrize(
    ("token", "dtype", "failed"), [("HUGE", "float16", 1), ("HUGE", "float32", 0), ("NAN", "float32", 1)]
)
def test_a_value_that_cannot_be_stored_fails_its_sentence_by_name(
    token: str, dtype: str, failed: int, tmp_path: Path
) -> None:
    corpus = corpus_of(tmp_path, "before it", f"a {token} value", "after it")
    manifest = fake_dump(corpus, tmp_path / "out", store=StoreConfig(dtype=dtype))  # type: ignore[arg-type]
    assert manifest.failed == failed
    assert verify(Folder(tmp_path / "out")).ok
    store = FeatureStore.open(tmp_path / "out")
    assert all(np.isfinite(features.column(name)).all() for features in store for name in store.columns)
    if failed:
        assert dtype in (tmp_path / "out/failures/00000.jsonl").read_text(encoding="utf-8")
        with pytest.raises(FailedSentenceError):
            store["corpus.txt:2"]


def test_half_floats_are_those_of_numpy(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    fake_dump(corpus, tmp_path / "single")
    fake_dump(corpus, tmp_path / "half", store=StoreConfig(shard_tokens=20, dtype="float16"))
    for single, half in zip(FeatureStore.open(tmp_path / "single"), FeatureStore.open(tmp_path / "half"), strict=True):
        for name in ("token", "forward_1", "backward_1"):
            assert half.column(name).dtype == np.float16
            np.testing.assert_array_equal(half.column(name), single.column(name).astype(np.float16))


def test_the_failure_limit_stops_the_job_and_the_rerun_with_a_higher_one_finishes(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "BOOM", "fine", "BOOM", "BOOM")
    with pytest.raises(TooManyFailuresError, match=r"corpus\.txt:"):
        fake_dump(corpus, tmp_path / "out", max_failures=2)
    with pytest.raises(StoreError):
        FeatureStore.open(tmp_path / "out")
    assert fake_dump(corpus, tmp_path / "out", max_failures=3).failed == 3


def test_batches_that_do_not_fit_are_cut_until_they_do(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    fake_dump(corpus, tmp_path / "small", encoder=FakeEncoderFactory(most_sentences=2))
    fake_dump(corpus, tmp_path / "large")
    assert lasting_files(tmp_path / "small") == lasting_files(tmp_path / "large")


def test_a_lost_device_ends_the_job_with_the_sentence_named(tmp_path: Path) -> None:
    with pytest.raises(DeviceLostError, match=r"corpus\.txt:2"):
        fake_dump(corpus_of(tmp_path, "fine", "all GONE now"), tmp_path / "out", encode=EncodeConfig(batch_tokens=1))


def test_only_blank_lines_make_an_empty_store_when_they_are_skipped(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "", " ", "")
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        manifest = fake_dump(corpus, out, corpus_config=CorpusConfig(blank_lines="skip"), workers=workers)
        assert manifest.sentences == 0
        assert verify(Folder(out)).ok
        assert list(FeatureStore.open(out)) == []


def test_another_job_on_the_same_output_is_refused_with_what_differs(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    fake_dump(corpus, tmp_path / "out")
    before = lasting_files(tmp_path / "out")
    with pytest.raises(FingerprintError, match=r"store\.dtype"):
        fake_dump(corpus, tmp_path / "out", store=StoreConfig(shard_tokens=20, dtype="float16"))
    with pytest.raises(FingerprintError, match="model_digest"):
        fake_dump(corpus, tmp_path / "out", encoder=FakeEncoderFactory(seed=1))
    (corpus / "a.txt").write_text("changed\n", encoding="utf-8")
    with pytest.raises(FingerprintError, match=r"a\.txt"):
        fake_dump(corpus, tmp_path / "out")
    assert lasting_files(tmp_path / "out") == before
    fake_dump(corpus, tmp_path / "out", fresh=True)
    assert FeatureStore.open(tmp_path / "out")["a.txt:1"].tokens == ("changed",)


def test_fresh_and_an_unusable_device_leave_the_store_alone(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    fake_dump(corpus, tmp_path / "out")
    before = lasting_files(tmp_path / "out")
    with pytest.raises(ConfigError, match="cuda"):
        fake_dump(corpus, tmp_path / "out", encode=EncodeConfig(device="cuda", batch_tokens=16), fresh=True)
    assert lasting_files(tmp_path / "out") == before


def test_a_folder_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work", encoding="utf-8")
    for fresh in (False, True):
        with pytest.raises(OutputInUseError, match=r"thesis\.txt"):
            fake_dump(write_corpus(tmp_path / "corpus"), tmp_path / "mine", fresh=fresh)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_too_little_room_is_found_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    monkeypatch.setattr(Folder, "free_bytes", lambda self: 1000)
    with pytest.raises(StorageError, match=r"1\.0 kB are free.*--force"):
        fake_dump(corpus, tmp_path / "out")
    assert fake_dump(corpus, tmp_path / "out", force=True).sentences == 40


@pytest.mark.parametrize("limit", [3000, 6000, 9000])  # bytes: within the structure of a shard, and within its vectors
def test_a_disk_that_fills_up_ends_the_job_in_one_line_and_the_rerun_finishes(limit: int, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    code = (
        "import resource, signal, sys; from pathlib import Path; from support.dumping import fake_dump;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY));"
        f"fake_dump(Path({str(corpus)!r}), {str(tmp_path / 'out')!r})"
    )
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode != 0
    assert "StorageError" in done.stderr and "cannot write" in done.stderr
    with pytest.raises(StoreError):
        FeatureStore.open(tmp_path / "out")
    fake_dump(corpus, tmp_path / "out")
    fake_dump(corpus, tmp_path / "whole")
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "whole")


def one_line(result: Result) -> str:
    assert result.code == 2
    assert result.out == ""
    (line,) = result.err.splitlines()
    assert line.startswith("elmo: ")
    return line


@pytest.mark.parametrize(
    ("content", "name", "named"),
    [
        (b"caf\xe9 here\n", "a.txt", ["a.txt:1", "offset 3"]),
        (b"fine\ttext\nno tab here\n", "a.tsv", ["a.tsv:2", "tab"]),
        (b"x\tone\ny\ttwo\nx\tthree\n", "a.tsv", ["a.tsv:1", "a.tsv:3"]),
        (b'{"id": "x", "text": 7}\n', "a.jsonl", ["a.jsonl:1", "text"]),
        (b"\x1f\x8b\x08 not gzip", "a.txt.gz", ["a.txt.gz"]),
        (b"", "a.txt", []),
    ],
)
def test_bad_input_is_one_line_with_the_place_and_leaves_nothing(
    content: bytes, name: str, named: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / name).write_bytes(content)
    line = one_line(elmo(capsys, "dump", tmp_path / "corpus", tmp_path / "out", "--model", BASE))
    assert all(part in line for part in named), line
    assert not (tmp_path / "out").exists()


def test_bad_arguments_are_one_line_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = corpus_of(tmp_path, "a", "", "b")
    out = tmp_path / "out"
    assert "0,1,2" in one_line(elmo(capsys, "dump", corpus, out, "--model", BASE, "--layers", "7"))
    assert "corpus.txt:2" in one_line(elmo(capsys, "dump", corpus, out, "--model", BASE, "--strict"))
    assert "cuda" in one_line(elmo(capsys, "dump", corpus, out, "--model", BASE, "--device", "cuda"))
    assert "nowhere" in one_line(elmo(capsys, "dump", tmp_path / "nowhere", out, "--model", BASE))
    assert "no-model" in one_line(elmo(capsys, "dump", corpus, out, "--model", tmp_path / "no-model"))
    (tmp_path / "empty").mkdir()
    one_line(elmo(capsys, "dump", tmp_path / "empty", out, "--model", BASE))
    assert elmo(capsys, "dump", corpus).code == 2
    assert elmo(capsys, "no-such-command").code == 2
    assert not out.exists()


def test_cut_weights_and_a_shard_given_as_weights_are_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = corpus_of(tmp_path, "a b")
    assert elmo(capsys, "dump", corpus, tmp_path / "store", "--model", BASE).code == 0
    (shard,) = (tmp_path / "store/shards").iterdir()
    weights = (BASE / "weights.hdf5").read_bytes()
    for content, words in (
        (weights[: len(weights) // 2], "incomplete or corrupt"),
        (shard.read_bytes(), "feature file"),
    ):
        model = tmp_path / words.replace(" ", "-")
        model.mkdir()
        (model / "options.json").write_bytes((BASE / "options.json").read_bytes())
        (model / "weights.hdf5").write_bytes(content)
        line = one_line(elmo(capsys, "dump", corpus, tmp_path / "out", "--model", model))
        assert words in line and "weights.hdf5" in line
        assert not (tmp_path / "out").exists()


def test_an_internal_fault_is_told_apart_and_its_traceback_is_kept_for_debug(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Folder) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Folder, "remove_stale", broken)
    corpus = corpus_of(tmp_path, "a b")
    done = elmo(capsys, "dump", corpus, tmp_path / "out", "--model", BASE)
    assert done.code == 1 and "ZeroDivisionError: oops" in done.err and "Traceback" not in done.err
    assert "Traceback" in elmo(capsys, "dump", corpus, tmp_path / "out", "--model", BASE, "--debug").err


def test_failed_sentences_give_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Every float16 overflows in a model whose projected states are not clipped and whose weights are large.
    done = elmo(
        capsys,
        "dump",
        corpus_of(tmp_path, "a b"),
        tmp_path / "out",
        "--model",
        big_model(tmp_path),
        "--dtype",
        "float16",
    )
    assert done.code == 3
    assert "failed sentences: 1" in done.err and "failures" in done.err


def big_model(tmp_path: Path) -> Path:
    model = tmp_path / "big"
    model.mkdir()
    for name in ("options.json", "weights.hdf5"):
        (model / name).write_bytes((GOLDEN / "seeded/no_clip" / name).read_bytes())
    with h5py.File(model / "weights.hdf5", "r+") as file:
        file["CNN_proj/b_proj"][...] = 1e6
    return model
