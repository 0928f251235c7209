from pathlib import Path

import pytest

from elmo_model.errors import WeightsError
from elmo_model.model_folder import ModelFiles


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


def test_files_are_found_under_the_names_they_were_published_with(tmp_path: Path) -> None:
    prefix = "elmo_2x1024_128_2048cnn_1xhighway"
    touch(tmp_path, f"{prefix}_options.json", f"{prefix}_weights.hdf5", "README.md", "softmax.safetensors")
    files = ModelFiles.find(tmp_path)
    assert files.options.name == f"{prefix}_options.json"
    assert files.weights.name == f"{prefix}_weights.hdf5"
    assert files.vocabulary is None


def test_the_vocabulary_is_found_and_hidden_files_are_not(tmp_path: Path) -> None:
    touch(tmp_path, "options.json", "weights.h5", "vocab.txt", ".weights.hdf5", "._options.json")
    files = ModelFiles.find(tmp_path)
    assert files.weights.name == "weights.h5"
    assert files.vocabulary == tmp_path / "vocab.txt"


def test_none_or_several_files_of_a_kind_are_refused_by_name(tmp_path: Path) -> None:
    touch(tmp_path, "options.json")
    with pytest.raises(WeightsError, match=r"one weight file .* found: none"):
        ModelFiles.find(tmp_path)
    touch(tmp_path, "a_weights.hdf5", "b_weights.h5")
    with pytest.raises(WeightsError, match=r"found: a_weights.hdf5, b_weights.h5"):
        ModelFiles.find(tmp_path)


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="not a folder"):
        ModelFiles.find(tmp_path / "nowhere")
