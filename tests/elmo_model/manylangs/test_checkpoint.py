"""Pickles from strangers: read without running anything, refused in one line."""

import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo_model.errors import WeightsError
from elmo_model.manylangs.checkpoint import read_tensors
from support.malicious import Malicious
from support.paths import GOLDEN

MANYLANGS = GOLDEN / "manylangs"


def refused(path: Path) -> str:
    with pytest.raises(WeightsError) as caught:
        read_tensors(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    assert "weights_only" not in message
    return message


@pytest.mark.parametrize("zip_format", [True, False])
def test_a_pickle_that_runs_code_is_refused_and_runs_nothing(tmp_path: Path, zip_format: bool) -> None:
    victim, path = tmp_path / "victim", tmp_path / "encoder.pkl"
    content = OrderedDict(weight=torch.zeros(2), hidden=Malicious(victim))
    torch.save(content, path, _use_new_zipfile_serialization=zip_format)
    message = refused(path)
    assert "run code" in message and "state_dict" in message
    assert not victim.exists()
    torch.load(path, weights_only=False)
    assert victim.exists(), "the pickle must be able to do what it was kept from doing"


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_plain_pickle_that_runs_code_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "encoder.pkl"
    path.write_bytes(pickle.dumps(Malicious(victim)))
    refused(path)
    assert not victim.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "git lfs pull"),
        (b"\n<!DOCTYPE html><html>404</html>", "HTML"),
        (b"<html>", "HTML"),
        (b"\x00\x01garbage" * 20, "not a torch file"),
        (b"PK\x03\x04 no archive", ""),
    ],
)
def test_what_is_no_pickle_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "encoder.pkl"
    path.write_bytes(content)
    assert said in refused(path)


@pytest.mark.parametrize("folder", ["char_word_elmo", "char_word_elmo_legacy", "char_word_elmo_legacy_cuda"])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9, 0.999])
def test_a_cut_file_is_refused(tmp_path: Path, folder: str, share: float) -> None:
    whole = (MANYLANGS / folder / "encoder.pkl").read_bytes()
    path = tmp_path / "encoder.pkl"
    path.write_bytes(whole[: int(len(whole) * share)])
    refused(path)


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    folder=st.sampled_from(["char_word_elmo", "char_word_elmo_legacy"]),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=8),
)
def test_altered_bytes_give_tensors_or_one_line(tmp_path: Path, folder: str, changes: list[tuple[float, int]]) -> None:
    content = bytearray((MANYLANGS / folder / "token_embedder.pkl").read_bytes())
    for place, change in changes:
        # Half of the changes fall into the first 2 kB, where a legacy file has its pickles.
        content[int(place * 2 * 2048) if place < 0.5 else int((place - 0.5) * 2 * len(content))] ^= change
    path = tmp_path / "token_embedder.pkl"
    path.write_bytes(content)
    try:
        tensors = read_tensors(path)
    except WeightsError as error:
        assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
    else:
        assert all(isinstance(tensor, torch.Tensor) for tensor in tensors.values())


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    assert "can't be read" in refused(tmp_path / "encoder.pkl")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([torch.zeros(2)], "holds a list"),
        ({"weight": 3}, "'weight' is a int"),
        ({7: torch.zeros(2)}, "7 is a Tensor"),
        ({"weight": torch.zeros(2, dtype=torch.int64)}, "torch.int64"),
        ({"weight": torch.eye(3).to_sparse()}, "dense floats"),
        ({"weight": torch.zeros(1).expand(10**6, 10**6)}, "claims shape"),
    ],
)
def test_anything_but_named_dense_floats_is_refused(tmp_path: Path, content: Any, said: str) -> None:
    path = tmp_path / "encoder.pkl"
    torch.save(content, path)
    assert said in refused(path)


def test_a_state_dict_is_read_as_it_was_written(tmp_path: Path) -> None:
    linear = torch.nn.Linear(3, 2)
    torch.save(linear.state_dict(), tmp_path / "new.pkl")
    torch.save(linear.state_dict(), tmp_path / "old.pkl", _use_new_zipfile_serialization=False)
    for name in ("new.pkl", "old.pkl"):
        found = read_tensors(tmp_path / name)
        assert found.keys() == {"weight", "bias"} and torch.equal(found["weight"], linear.weight)
