"""Model folders: what is trained is what is written, read, extracted with, and trained further."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_model.errors import ElmoModelError, WeightsError
from elmo_model.extractor import Extractor
from elmo_model.options import ElmoOptions
from elmo_model.pretraining.initialization import continued_model, new_model
from elmo_model.pretraining.model_files import (
    ModelCard,
    read_card,
    read_language_model,
    write_language_model,
)
from elmo_model.pretraining.trainer import Trainer
from elmo_model.vocabulary import MARKS, Vocabulary
from elmo_model.weights import read_bilm
from support.pretraining import TRAINING, read_lines, small_trainer

LINES = read_lines(TRAINING / "train.txt")
CARD = ModelCard(name="small", tokenizer="whitespace", data=[{"name": "a corpus", "licence": "CC0"}])


@pytest.fixture
def trained() -> Trainer:
    trainer = small_trainer(LINES)
    for _ in range(5):
        trainer.step(progress=0.0)
    return trainer


def write(trainer: Trainer, folder: Path, dtype: str = "float32") -> None:
    write_language_model(
        trainer.model,
        folder,
        vocabulary=trainer.vocabulary,
        options=trainer.options,
        card=CARD,
        dtype="float16" if dtype == "float16" else "float32",
    )


def test_a_written_model_reads_back_whole(trained: Trainer, tmp_path: Path) -> None:
    write(trained, tmp_path / "model")
    model, vocabulary = read_language_model(tmp_path / "model")
    assert vocabulary.words == trained.vocabulary.words
    assert read_card(tmp_path / "model") == CARD
    for (name, there), (_, here) in zip(model.named_parameters(), trained.model.named_parameters(), strict=True):
        assert torch.equal(there, here), name


def test_its_vectors_are_those_of_the_model_in_memory(trained: Trainer, tmp_path: Path) -> None:
    write(trained, tmp_path)
    columns = ("token", "forward_1", "backward_1", "forward_2", "backward_2")
    trained.model.eval().requires_grad_(False)
    here, there = (Extractor(bilm, columns=columns).encode(LINES) for bilm in (trained.model.bilm, read_bilm(tmp_path)))
    for name in columns:
        assert np.abs(here.columns[name]).max() > 0.01
        np.testing.assert_allclose(there.columns[name], here.columns[name], rtol=0, atol=1e-6)


def test_the_files_have_the_original_names_and_need_no_editing(trained: Trainer, tmp_path: Path) -> None:
    write(trained, tmp_path)
    with h5py.File(TRAINING / "golden_clip10.hdf5") as golden, h5py.File(tmp_path / "weights.hdf5") as written:
        shapes: dict[str, tuple[int, ...]] = {}
        golden["weights/initial"].visititems(
            lambda name, node: shapes.update({name: node.shape}) if isinstance(node, h5py.Dataset) else None
        )
        expected = {name: shape for name, shape in shapes.items() if not name.startswith("softmax")}
        found: dict[str, tuple[int, ...]] = {}
        written.visititems(
            lambda name, node: found.update({name: node.shape}) if isinstance(node, h5py.Dataset) else None
        )
    assert found == expected
    options = json.loads((tmp_path / "options.json").read_text())
    assert options["n_tokens_vocab"] == len(trained.vocabulary)
    assert options["char_cnn"]["n_characters"] == 262 or new_model(
        ElmoOptions.from_mapping(options), trained.vocabulary, seed=0
    )


def test_a_new_model_is_described_for_prediction(tmp_path: Path) -> None:
    mapping = json.loads((TRAINING / "options.json").read_text())
    assert mapping["char_cnn"]["n_characters"] == 261
    model = new_model(ElmoOptions.from_mapping(mapping), Vocabulary([*MARKS, "word"]), seed=0)
    assert model.bilm.options.to_mapping()["char_cnn"]["n_characters"] == 262


def test_float16_is_stored_as_such_and_keeps_the_numbers_close(trained: Trainer, tmp_path: Path) -> None:
    write(trained, tmp_path / "half", dtype="float16")
    write(trained, tmp_path / "full")
    model, _ = read_language_model(tmp_path / "half")
    for (name, there), (_, here) in zip(model.named_parameters(), trained.model.named_parameters(), strict=True):
        assert there.dtype == torch.float32
        torch.testing.assert_close(there, here.detach(), rtol=1e-3, atol=1e-6, msg=name)
    for file, array in (("softmax.hdf5", "W"), ("weights.hdf5", "char_embed")):
        with h5py.File(tmp_path / "half" / file) as half, h5py.File(tmp_path / "full" / file) as full:
            assert (half[array].dtype, full[array].dtype) == (np.float16, np.float32)


def test_softmax_values_beyond_float16_are_refused(trained: Trainer, tmp_path: Path) -> None:
    with torch.no_grad():
        trained.model.softmax.bias[0] = 1e6
    with pytest.raises(WeightsError, match="float16"):
        write(trained, tmp_path, dtype="float16")


def test_a_biLM_alone_says_that_it_cant_predict(trained: Trainer, tmp_path: Path) -> None:  # noqa: N802
    write(trained, tmp_path)
    (tmp_path / "softmax.hdf5").unlink()
    with pytest.raises(WeightsError, match="can't predict words"):
        read_language_model(tmp_path)


def test_a_softmax_of_another_vocabulary_is_refused(trained: Trainer, tmp_path: Path) -> None:
    write(trained, tmp_path)
    with h5py.File(tmp_path / "softmax.hdf5", "r+") as file:
        shorter = file["b"][:-1]
        del file["b"]
        file["b"] = shorter
    with pytest.raises(WeightsError, match=r"array 'b' has shape \(23,\), but by the options \(24,\)"):
        read_language_model(tmp_path)


def test_going_on_with_another_vocabulary_copies_rows_by_word(trained: Trainer, tmp_path: Path) -> None:
    write(trained, tmp_path)
    old = trained.vocabulary
    new = Vocabulary([*MARKS, old.words[9], "never-seen", old.words[4]])
    model, vocabulary, told = continued_model(tmp_path, new, options=None, seed=0)
    assert vocabulary is new
    assert told == "5 words of the vocabulary keep their softmax rows, 1 are new"
    for word in new.words:
        same = torch.equal(model.softmax.weight[new.id_of(word)], trained.model.softmax.weight[old.id_of(word)])
        assert same is (word in old)
    (here, *_), (there, *_) = (list(source.bilm.forward_layers.parameters()) for source in (model, trained.model))
    assert torch.equal(here, there)


def test_going_on_from_published_weights_gets_a_new_softmax(trained: Trainer, tmp_path: Path) -> None:
    write(trained, tmp_path)
    (tmp_path / "softmax.hdf5").unlink()
    _, _, told = continued_model(tmp_path, trained.vocabulary, options=None, seed=0)
    assert told.startswith("the softmax is new")
    with pytest.raises(ElmoModelError, match="can't predict words"):
        continued_model(tmp_path, None, options=None, seed=0)


def test_going_on_in_another_shape_is_refused_by_name(trained: Trainer, tmp_path: Path) -> None:
    write(trained, tmp_path)
    mapping = json.loads((TRAINING / "options.json").read_text())
    mapping["lstm"]["dim"] = 9
    with pytest.raises(ElmoModelError, match="another lstm than the options ask for"):
        continued_model(tmp_path, None, options=ElmoOptions.from_mapping(mapping), seed=0)
