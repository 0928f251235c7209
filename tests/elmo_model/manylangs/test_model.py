"""Folders whose files don't belong together, and what tokens lose on being read."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.errors import VocabularyError, WeightsError
from elmo_model.extractor import Extractor
from elmo_model.manylangs.model import ManyLangsModel
from support.paths import GOLDEN

MANYLANGS = GOLDEN / "manylangs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MANYLANGS / "char_word_elmo", tmp_path / "model"))


def refused(folder: Path) -> str:
    with pytest.raises((WeightsError, VocabularyError)) as caught:
        ManyLangsModel.open(folder).read_bilm()
    with pytest.raises(type(caught.value)):
        ManyLangsModel.open(folder).digest()
    return str(caught.value)


@pytest.mark.parametrize(("name", "rows"), [("word.dic", "words"), ("char.dic", "characters")])
def test_dictionaries_of_another_release_are_named_in_words(folder: Path, name: str, rows: str) -> None:
    with open(folder / name, "a", encoding="utf-8") as file:
        file.write("extra\t0\n")
    message = refused(folder)
    assert name in message and rows in message and "another release" in message


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    network = json.loads((folder / "cnn_tiny.json").read_text())
    network["encoder"]["dim"] = 17
    (folder / "cnn_tiny.json").write_text(json.dumps(network))
    assert "shape (64, 10), but by the network config (68, 10)" in refused(folder)


def test_a_shallower_config_than_the_weights_is_refused(folder: Path) -> None:
    network = json.loads((folder / "cnn_tiny.json").read_text())
    network["encoder"]["n_layers"] = 1
    (folder / "cnn_tiny.json").write_text(json.dumps(network))
    assert "8 tensors that have no place" in refused(folder)


def test_absurd_sizes_in_the_config_cost_nothing(folder: Path) -> None:
    network = json.loads((folder / "cnn_tiny.json").read_text())
    network["encoder"] |= {"n_layers": 10**15}
    (folder / "cnn_tiny.json").write_text(json.dumps(network))
    assert "forward_layer_2" in refused(folder)


def test_a_value_that_is_not_finite_is_refused(folder: Path) -> None:
    tensors = torch.load(folder / "encoder.pkl", weights_only=True)
    tensors["forward_layer_1.state_linearity.bias"][3] = float("nan")
    torch.save(tensors, folder / "encoder.pkl")
    message = refused(folder)
    assert "forward_layer_1.state_linearity.bias" in message and "finite" in message


@pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl", "word.dic", "char.dic"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert name in refused(folder)


def test_swapped_pickles_are_refused(folder: Path) -> None:
    (folder / "encoder.pkl").rename(folder / "x")
    (folder / "token_embedder.pkl").rename(folder / "encoder.pkl")
    (folder / "x").rename(folder / "token_embedder.pkl")
    assert "is missing" in refused(folder)


def test_an_encoder_of_the_other_kind_is_refused() -> None:
    with pytest.raises(WeightsError, match=r"encoder\.name is 'lstm'"):
        ManyLangsModel.open(MANYLANGS / "char_word_lstm_encoder").read_bilm()
    with pytest.raises(WeightsError, match="not 'lstm'"):
        ManyLangsModel.open(MANYLANGS / "char_word_elmo").read_lstm_encoder()


def test_a_changed_dictionary_entry_changes_the_digest(folder: Path) -> None:
    before = ManyLangsModel.open(folder).digest()
    text = (folder / "word.dic").read_text(encoding="utf-8")
    (folder / "word.dic").write_text(text.replace("quick\t", "slow\t"), encoding="utf-8")
    assert ManyLangsModel.open(folder).digest() != before
    (folder / "word.dic").write_text(text, encoding="utf-8")
    shutil.copy(folder / "cnn_tiny.json", folder / "other.json")
    (folder / "config.json").write_text(json.dumps({"config_path": "other.json", "lr": 3}))
    assert ManyLangsModel.open(folder).digest() == before


def test_unknown_shortened_and_special_tokens_are_counted() -> None:
    extractor = Extractor(ManyLangsModel.open(MANYLANGS / "char_word_elmo").read_bilm())
    counts = extractor.encode([["fox", "zebra", "\u9f98", "x" * 18, "x" * 19, "<bos>", "\u9f98"]]).counts
    assert counts == {
        "unknown_words": 5,
        "unknown_characters": 3,  # the z of zebra, and the ideograph twice
        "truncated_tokens": 1,
        "boundary_like_tokens": 1,
    }


def test_full_width_forms_are_read_as_ascii_when_asked() -> None:
    model = ManyLangsModel.open(MANYLANGS / "char_word_elmo")
    plain, folding = Extractor(model.read_bilm()), Extractor(model.read_bilm(fold_full_width=True))
    wide, narrow = [["\uff0c", "\uff30aris", "\u3000"]], [[",", "Paris", "\u3000"]]
    assert plain.encode(wide).counts == {
        "unknown_words": 2,
        "unknown_characters": 2,
        "unknown_full_width_forms": 2,
    }
    folded = folding.encode(wide)
    assert folded.counts == {"folded_tokens": 2}
    for name, rows in plain.encode(narrow).columns.items():
        np.testing.assert_array_equal(folded.columns[name], rows)
        assert not np.array_equal(plain.encode(wide).columns[name], rows)


def test_neither_the_original_package_nor_its_checker_is_imported() -> None:
    program = (
        "import sys; from elmo_model.manylangs.model import ManyLangsModel; "
        f"ManyLangsModel.open({str(MANYLANGS / 'char_word_elmo')!r}).read_bilm(); "
        "print([name for name in sys.modules if name.split('.')[0] in ('elmoformanylangs', 'overrides')])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
