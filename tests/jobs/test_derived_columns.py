"""Mixes and pooled rows from the command line, against what is computed from the stored layers."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_model.scalar_mix import ScalarMix
from pipeline.errors import MissingColumnError
from pipeline.reader import FeatureStore
from support.cli import elmo
from support.paths import GOLDEN

BASE = GOLDEN / "seeded" / "base"


def dumped(capsys: pytest.CaptureFixture[str], corpus: Path, store: Path, *options: str | Path) -> FeatureStore:
    done = elmo(capsys, "dump", corpus, store, "--model", BASE, *options)
    assert done.code == 0, done.err
    checked = elmo(capsys, "verify", store)
    assert checked.code == 0, checked.out + checked.err
    return FeatureStore.open(store)


def test_a_stored_mix_is_what_the_trained_module_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat\n\nHello\n")
    raw, gamma = [0.3, -1.2, 0.7], 1.7
    (tmp_path / "weights.json").write_text(json.dumps({"raw_weights": raw, "gamma": gamma}))
    layers = dumped(capsys, corpus, tmp_path / "layers")["corpus.txt:1"].layers()
    mixed = dumped(capsys, corpus, tmp_path / "mixed", "--mix", tmp_path / "weights.json")
    module = ScalarMix(3, raw_weights=raw, gamma=gamma)
    wanted = module(torch.from_numpy(layers)[None], torch.ones(1, 3)).detach().numpy()[0]
    np.testing.assert_allclose(mixed["corpus.txt:1"].column("mix"), wanted, atol=1e-5)
    assert mixed["corpus.txt:2"].column("mix").shape == (0, 16)
    with pytest.raises(MissingColumnError):
        mixed["corpus.txt:1"].layers()


@pytest.mark.parametrize("shard_format", ["hdf5", "parquet"])
def test_proteins_are_stored_as_the_mean_over_their_residues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shard_format: str
) -> None:
    corpus = tmp_path / "proteins.fasta.gz"
    corpus.write_bytes(gzip.compress(b">P1 first\nMKTAYIAK\nQR\n>P2\nGG\n"))
    residues = dumped(capsys, corpus, tmp_path / "residues", "--layers", "top")
    means = dumped(
        capsys, corpus, tmp_path / "means", "--layers", "top", "--pool", "mean,last", "--format", shard_format
    )
    assert list(means.ids()) == list(residues.ids()) and len(means) == 2
    for identifier in residues.ids():
        for column in ("forward_2", "backward_2"):
            rows = residues[identifier].column(column)
            np.testing.assert_allclose(means[identifier].column(f"{column}_mean"), rows.mean(axis=0), atol=1e-5)
            np.testing.assert_allclose(means[identifier].column(f"{column}_last"), rows[-1], atol=1e-5)
    assert len(residues[next(residues.ids())].tokens) == 10


@pytest.mark.parametrize("shard_format", ["hdf5", "parquet"])
def test_chosen_spans_are_pooled_and_keep_their_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shard_format: str
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    records: list[dict[str, Any]] = [
        {"id": "long", "tokens": ["the", "cat", "sat", "down"], "phrases": [[0, 2], [2, 4], [1, 3]]},
        {"id": "bare", "tokens": ["Hello"], "phrases": []},
        {"id": "blank", "tokens": [], "phrases": []},
        {"id": "short", "tokens": ["Hello", "cat"], "phrases": [[1, 2]]},
    ]
    corpus.write_text("".join(json.dumps(record) + "\n" for record in records))
    tokens = dumped(capsys, corpus, tmp_path / "tokens", "--layers", "top")
    options = ("--layers", "top", "--pool", "mean,last", "--spans-column", "phrases", "--format", shard_format)
    spans = dumped(capsys, corpus, tmp_path / "spans", *options)
    assert list(spans.ids()) == ["long", "bare", "blank", "short"]
    for record in records:
        found, rows = spans[record["id"]], tokens[record["id"]].column("forward_2")
        assert [list(span) for span in found.spans] == record["phrases"]
        assert found.column("forward_2_mean").shape == (len(found.spans), 8)
        for number, (start, end) in enumerate(found.spans):
            np.testing.assert_allclose(found.column("forward_2_mean")[number], rows[start:end].mean(axis=0), atol=1e-5)
            np.testing.assert_allclose(found.column("forward_2_last")[number], rows[end - 1], atol=1e-5)
    shown = elmo(capsys, "inspect", tmp_path / "spans", "--id", "long")
    assert shown.code == 0 and "forward_2_mean float32 (3, 8)" in shown.out


def test_contradictions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, weights = tmp_path / "corpus.txt", tmp_path / "weights.json"
    corpus.write_text("the cat\n")
    weights.write_text(json.dumps({"weights": [0.5, 0.5]}))
    arguments = ("dump", corpus, tmp_path / "store", "--model", BASE)
    both = elmo(capsys, *arguments, "--mix", weights, "--layers", "top")
    assert both.code == 2 and "leave --layers out" in both.err
    too_few = elmo(capsys, *arguments, "--mix", weights)
    assert too_few.code == 2 and "3 numbers" in too_few.err
    assert elmo(capsys, *arguments, "--pool", "sum").code == 2
    unpooled = elmo(capsys, *arguments, "--spans-column", "spans")
    assert unpooled.code == 2 and "say how, such as mean" in unpooled.err
    plain = elmo(capsys, *arguments, "--spans-column", "spans", "--pool", "mean")
    assert plain.code == 2 and "not from the format text" in plain.err
    assert not (tmp_path / "store").exists()


def test_another_pool_is_another_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat\n")
    dumped(capsys, corpus, tmp_path / "store", "--pool", "mean")
    again = elmo(capsys, "dump", corpus, tmp_path / "store", "--model", BASE, "--pool", "max")
    assert again.code == 2 and "pool" in again.err
    dumped(capsys, corpus, tmp_path / "store", "--pool", "mean")
