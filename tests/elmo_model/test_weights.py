import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from elmo_model.errors import ElmoModelError, VocabularyError, WeightsError
from elmo_model.extractor import Extractor
from elmo_model.model_folder import ModelFiles
from elmo_model.options import read_options
from elmo_model.token_encoder import CharacterTokenEncoder
from elmo_model.weights import model_digest, read_bilm, write_bilm
from support.bilms import SEEDED, SEEDED_MODELS, TOLERANCE, random_bilm, tiny_options
from support.oracle import Oracle

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat"]
CELL_0 = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the golden base model that a test may damage."""
    folder = tmp_path / "model"
    shutil.copytree(SEEDED / "base", folder)
    return folder


def edit_options(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    options = json.loads((folder / "options.json").read_text())
    edit(options)
    (folder / "options.json").write_text(json.dumps(options))


def replace_array(folder: Path, name: str, values: Any) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file[name]
        if values is not None:
            file[name] = values


@pytest.mark.parametrize("name", SEEDED_MODELS)
def test_writing_and_reading_again_is_the_identity(name: str, tmp_path: Path) -> None:
    bilm = read_bilm(SEEDED / name)
    write_bilm(bilm, tmp_path / "copy")
    again = read_bilm(tmp_path / "copy")
    assert again.options == bilm.options
    assert list(again.state_dict()) == list(bilm.state_dict())
    for key, values in bilm.state_dict().items():
        assert torch.equal(again.state_dict()[key], values), key
    assert model_digest(tmp_path / "copy") == model_digest(SEEDED / name)
    with h5py.File(SEEDED / name / "weights.hdf5") as original, h5py.File(tmp_path / "copy/weights.hdf5") as copy:
        original.visititems(lambda path, node: _check_equal(path, node, copy))


def _check_equal(path: str, node: Any, copy: h5py.File) -> None:
    if isinstance(node, h5py.Dataset):
        np.testing.assert_array_equal(node[()], copy[path][()], err_msg=path)


@pytest.mark.parametrize("n_characters", [261, 262])
def test_the_character_table_has_261_rows_whatever_the_options_say(n_characters: int, model: Path) -> None:
    edit_options(model, lambda options: options["char_cnn"].update(n_characters=n_characters))
    encoder = read_bilm(model).token_encoder
    assert isinstance(encoder, CharacterTokenEncoder)
    with h5py.File(model / "weights.hdf5") as file:
        np.testing.assert_array_equal(encoder.char_embed.numpy(), file["char_embed"][()])


def test_another_number_of_characters_is_refused_with_both_numbers(model: Path) -> None:
    replace_array(model, "char_embed", np.zeros((262, 4), np.float32))
    with pytest.raises(WeightsError, match=r"'char_embed' has shape \(262, 4\), but by the options \(261, 4\)"):
        read_bilm(model)


def test_equal_sizes_need_no_projection_but_take_one_that_is_there(tmp_path: Path) -> None:
    assert read_bilm(SEEDED / "dim_equal_projection").layer(0)[0].projection is None
    options = tiny_options(dim=6)
    options["char_cnn"]["filters"] = [[1, 6]]
    files = write_bilm(random_bilm(options), tmp_path)
    before = model_digest(files)
    with h5py.File(files.weights, "r+") as file:
        for direction in (0, 1):
            for layer in (0, 1):
                file[f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/W_P_0"] = np.eye(6, dtype=np.float32)
        file["CNN_proj/W_proj"] = np.eye(6, dtype=np.float32)
        file["CNN_proj/b_proj"] = np.ones(6, dtype=np.float32)
    bilm = read_bilm(files)
    assert bilm.layer(0)[0].projection is not None
    assert bilm.token_encoder.projection is not None
    assert model_digest(files) != before
    found = Extractor(bilm).encode([["a", "word"]]).columns
    for name, expected in Oracle(tmp_path).columns(["a", "word"]).items():
        np.testing.assert_allclose(found[name], expected, atol=TOLERANCE)


def test_one_layer_models_load_from_both_layouts(tmp_path: Path) -> None:
    source = SEEDED / "tanh_l1_highway1"
    shutil.copytree(source, tmp_path / "exported")
    with h5py.File(tmp_path / "exported" / "weights.hdf5", "r+") as file:
        for direction in (0, 1):
            file.move(f"RNN_{direction}/RNN/MultiRNNCell/Cell0/LSTMCell", f"RNN_{direction}/RNN/LSTMCell")
            del file[f"RNN_{direction}/RNN/MultiRNNCell"]
    found, expected = read_bilm(tmp_path / "exported"), read_bilm(source)
    for key, values in expected.state_dict().items():
        assert torch.equal(found.state_dict()[key], values)
    assert model_digest(tmp_path / "exported") == model_digest(source)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_one_directional_model_has_no_direction_in_its_names(n_layers: int, tmp_path: Path) -> None:
    bilm = random_bilm({**tiny_options(n_layers=n_layers), "bidirectional": False})
    files = write_bilm(bilm, tmp_path)
    with h5py.File(files.weights) as file:
        assert "RNN/MultiRNNCell/Cell0/LSTMCell/W_0" in file
        assert "RNN_0" not in file
    found = Extractor(read_bilm(tmp_path)).encode([["one", "way"]]).columns
    assert list(found) == ["token", *(f"forward_{k + 1}" for k in range(n_layers))]
    for name, expected in Oracle(tmp_path).columns(["one", "way"]).items():
        np.testing.assert_allclose(found[name], expected, atol=TOLERANCE)


def test_further_layers_in_the_file_are_ignored(model: Path) -> None:
    edit_options(model, lambda options: options["lstm"].update(n_layers=1))
    with_more = model_digest(model)
    with h5py.File(model / "weights.hdf5", "r+") as file:
        del file["RNN_0/RNN/MultiRNNCell/Cell1"]
    assert model_digest(model) == with_more
    assert len(read_bilm(model).forward_layers) == 1


def test_a_word_model_needs_its_vocabulary(tmp_path: Path) -> None:
    options = tiny_options()
    del options["char_cnn"]
    files = write_bilm(random_bilm(options, words=WORDS), tmp_path)
    found = Extractor(read_bilm(tmp_path)).encode([["the", "unseen", "cat"]])
    assert found.counts == {"unknown_words": 1}
    for name, expected in Oracle(tmp_path).columns(["the", "unseen", "cat"]).items():
        np.testing.assert_allclose(found.columns[name], expected, atol=TOLERANCE)
    digest = model_digest(tmp_path)
    assert files.vocabulary is not None
    files.vocabulary.write_text("\n".join([*WORDS[:3], "cat", "the"]))
    assert model_digest(tmp_path) != digest
    files.vocabulary.write_text("\n".join([*WORDS, "more"]))
    with pytest.raises(WeightsError, match=r"'embedding' has shape \(5, 6\), but by the options \(6, 6\)"):
        read_bilm(tmp_path)
    files.vocabulary.unlink()
    with pytest.raises(VocabularyError, match="a vocabulary file is required"):
        read_bilm(tmp_path)


def test_a_feature_file_is_no_weight_file(model: Path) -> None:
    shutil.copy(SEEDED / "base/elmo_command/all.hdf5", model / "weights.hdf5")
    with pytest.raises(WeightsError, match=r"weights.hdf5: this is a feature file, not weights: it holds '0'"):
        read_bilm(model)


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.99])
def test_a_cut_file_is_called_incomplete(kept: float, model: Path) -> None:
    path = model / "weights.hdf5"
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(WeightsError, match=r"weights.hdf5: .*incomplete or corrupt") as caught:
        read_bilm(model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"version https://git-lfs.github.com/spec/v1\n", b"<html>", b"\x80\x02."])
def test_a_file_of_another_kind_is_refused(content: bytes, model: Path) -> None:
    (model / "weights.hdf5").write_bytes(content)
    with pytest.raises(WeightsError, match="not an HDF5 file"):
        read_bilm(model)


def test_damage_anywhere_is_an_error_of_this_package_or_harmless(model: Path) -> None:
    path = model / "weights.hdf5"
    content = path.read_bytes()
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        damaged = bytearray(content)
        start = int(generator.integers(len(content)))
        damaged[start : start + 64] = generator.bytes(len(damaged[start : start + 64]))
        path.write_bytes(damaged)
        try:
            read_bilm(model)
        except ElmoModelError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 0


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        (f"{CELL_0}/B", None, f"array '{CELL_0}/B' is missing; by the options it has shape (64,)"),
        ("CNN_proj/W_proj", None, "array 'CNN_proj/W_proj' is missing; by the options it has shape (24, 8)"),
        (f"{CELL_0}/W_0", np.zeros((16, 60)), f"array '{CELL_0}/W_0' has shape (16, 60), but by the options (16, 64)"),
        (f"{CELL_0}/B", np.zeros(64, np.int32), f"array '{CELL_0}/B' is of type int32; weights are floats"),
        (f"{CELL_0}/B", np.full(64, 1e300), f"array '{CELL_0}/B' holds 64 values of 64 that aren't finite"),
        (f"{CELL_0}/B", h5py.SoftLink("/char_embed"), f"array '{CELL_0}/B' is missing"),
        (f"{CELL_0}/B", h5py.ExternalLink("/etc/passwd", "/"), f"array '{CELL_0}/B' is missing"),
    ],
)
def test_arrays_that_do_not_fit_are_named_with_both_shapes(name: str, values: Any, said: str, model: Path) -> None:
    replace_array(model, name, values)
    for read in (read_bilm, model_digest):
        with pytest.raises(WeightsError, match=re.escape(f"weights.hdf5: {said}")):
            read(model)


def test_a_missing_projection_of_the_states_is_named(model: Path) -> None:
    replace_array(model, f"{CELL_0}/W_P_0", None)
    with pytest.raises(WeightsError, match=f"'{CELL_0}/W_P_0' is missing"):
        read_bilm(model)


def test_a_value_that_is_not_a_number_is_refused(model: Path) -> None:
    with h5py.File(model / "weights.hdf5", "r+") as file:
        file["char_embed"][7, 1] = np.nan
    with pytest.raises(WeightsError, match="'char_embed' holds 1 values of 1044 that aren't finite"):
        read_bilm(model)


def test_arrays_that_lie_in_other_files_are_not_read(model: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(bytes(256))
    with h5py.File(model / "weights.hdf5", "r+") as file:
        del file[f"{CELL_0}/B"]
        file.create_dataset(f"{CELL_0}/B", (64,), "f4", external=[(str(tmp_path / "raw"), 0, 256)])
    with pytest.raises(WeightsError, match="must be an array stored in this file"):
        read_bilm(model)


def test_options_of_absurd_size_are_refused_before_memory_is_asked_for(model: Path) -> None:
    edit_options(model, lambda options: options["lstm"].update(dim=10**12))
    with pytest.raises(WeightsError, match="has shape"):
        read_bilm(model)


def test_weights_stored_in_half_precision_load_as_float32(tmp_path: Path) -> None:
    bilm = read_bilm(SEEDED / "base")
    files = write_bilm(bilm, tmp_path, dtype="float16")
    with h5py.File(files.weights) as file:
        assert file["char_embed"].dtype == np.float16
    for key, values in read_bilm(tmp_path).state_dict().items():
        assert values.dtype == torch.float32
        assert torch.equal(values, bilm.state_dict()[key].half().float())


def test_weights_that_half_precision_cannot_hold_are_not_written(tmp_path: Path) -> None:
    bilm = random_bilm()
    bilm.layer(0)[0].bias.data[3] = 70000.0
    with pytest.raises(WeightsError, match=f"array '{CELL_0}/B' holds values that float16 can't hold"):
        write_bilm(bilm, tmp_path, dtype="float16")
    assert not (tmp_path / "weights.hdf5").exists()


def test_the_digest_ignores_how_and_where_the_same_arrays_are_stored(model: Path, tmp_path: Path) -> None:
    digest = model_digest(model)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.copy(model / "options.json", moved / "published_options.json")
    edit_options(model, lambda options: options.update(dropout=0.1, batch_size=128))
    with h5py.File(model / "weights.hdf5") as old, h5py.File(moved / "published_weights.hdf5", "w") as new:
        new.attrs["note"] = "stored again"
        names: list[str] = []
        old.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
        for name in reversed(names):
            new.create_dataset(name, data=old[name][()].astype(">f8"), chunks=True, compression="gzip")
    assert model_digest(moved) == model_digest(model) == digest
    edit_options(model, lambda options: options["char_cnn"].update(n_characters=261))
    assert model_digest(model) == digest


@pytest.mark.parametrize(
    "edit",
    [
        lambda options: options["lstm"].update(proj_clip=2.5),
        lambda options: options["lstm"].update(use_skip_connections=False),
        lambda options: options["char_cnn"].update(activation="tanh"),
    ],
)
def test_the_digest_changes_with_options_that_matter(edit: Callable[[dict[str, Any]], None], model: Path) -> None:
    digest = model_digest(model)
    edit_options(model, edit)
    assert model_digest(model) != digest


def test_the_digest_changes_with_any_weight(model: Path) -> None:
    digest = model_digest(model)
    with h5py.File(model / "weights.hdf5", "r+") as file:
        file["char_embed"][260, 3] += 1e-6
    assert model_digest(model) != digest


def test_files_may_be_given_one_by_one_and_options_may_say_more(tmp_path: Path) -> None:
    files = write_bilm(random_bilm(), tmp_path, extra_options={"dropout": 0.1, "lstm": "replaced"})
    assert json.loads(files.options.read_text())["dropout"] == 0.1
    apart = ModelFiles(options=tmp_path / "o.json", weights=tmp_path / "w")
    files.options.rename(apart.options)
    files.weights.rename(apart.weights)
    assert read_bilm(apart).options == read_options(apart.options) == random_bilm().options
