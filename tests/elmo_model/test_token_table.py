"""Token vectors of a closed vocabulary, against the file that bilm-tf wrote and the layers it computed from it."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_model.errors import WeightsError
from elmo_model.extractor import Extractor
from elmo_model.token_table import read_token_table, write_token_table
from elmo_model.vocabulary import Vocabulary
from elmo_model.weights import model_digest, read_bilm, write_bilm
from support.bilms import SEEDED, TOLERANCE

BASE = SEEDED / "base"
DUMPS = BASE / "bilm_dumps"
WIDTH = 8


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.read(DUMPS / "vocab.txt")


def test_the_written_table_is_that_of_the_original(tmp_path: Path, vocabulary: Vocabulary) -> None:
    path = tmp_path / "tokens.hdf5"
    write_token_table(read_bilm(BASE), vocabulary, path)
    with h5py.File(path) as found, h5py.File(DUMPS / "token_embeddings.hdf5") as wanted:
        assert list(found) == list(wanted) == ["embedding"]
        assert found["embedding"].dtype == np.float32
        np.testing.assert_allclose(found["embedding"][()], wanted["embedding"][()], atol=TOLERANCE)
    assert [p.name for p in tmp_path.iterdir()] == ["tokens.hdf5"]


def test_the_layers_from_the_table_are_those_of_the_original(vocabulary: Vocabulary) -> None:
    bilm = read_bilm(BASE)
    bilm.token_encoder = read_token_table(DUMPS / "token_embeddings.hdf5", vocabulary, width=WIDTH)
    with h5py.File(DUMPS / "token_id_path.hdf5") as file:
        sentences, wanted = json.loads(file.attrs["sentences"]), file["lm_embeddings"][()]
    extractor = Extractor(bilm)
    for tokens, layers in zip(sentences, wanted, strict=True):
        features = extractor.encode([tokens])
        columns = features.columns
        halves = [("token", "token"), ("forward_1", "backward_1"), ("forward_2", "backward_2")]
        found = np.stack([np.concatenate([columns[a], columns[b]], axis=1) for a, b in halves])
        np.testing.assert_allclose(found, layers[:, : len(tokens)], atol=TOLERANCE)
        assert features.counts.get("unknown_words", 0) == tokens.count("unseen")


def test_words_of_the_vocabulary_get_the_same_bits_as_from_their_characters(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    path = tmp_path / "tokens.hdf5"
    write_token_table(read_bilm(BASE), vocabulary, path)
    from_words = read_bilm(BASE)
    from_words.token_encoder = read_token_table(path, vocabulary, width=WIDTH)
    sentences = [["the", "cat", "."], ["e\u0301", "\u6211", "Hello", "the"]]
    wanted = Extractor(read_bilm(BASE)).encode(sentences).columns
    for name, rows in Extractor(from_words).encode(sentences).columns.items():
        np.testing.assert_array_equal(rows, wanted[name])


def test_a_model_with_a_table_can_be_written_as_a_model_of_words(tmp_path: Path, vocabulary: Vocabulary) -> None:
    bilm = read_bilm(BASE)
    bilm.token_encoder = read_token_table(DUMPS / "token_embeddings.hdf5", vocabulary, width=WIDTH)
    write_bilm(bilm, tmp_path)
    again = read_bilm(tmp_path)
    assert again.options.char_cnn is None and model_digest(tmp_path) != model_digest(BASE)
    columns = Extractor(again).encode([["the", "cat"]]).columns
    for name, rows in Extractor(bilm).encode([["the", "cat"]]).columns.items():
        np.testing.assert_array_equal(columns[name], rows)


def test_vectors_do_not_depend_on_the_place_in_the_vocabulary(tmp_path: Path) -> None:
    bilm = read_bilm(BASE)
    words = [f"word{number}" for number in range(5000)]
    marks = ["<S>", "</S>", "<UNK>"]
    for name, order in (("a", words), ("b", words[::-1])):
        write_token_table(bilm, Vocabulary(marks + order), tmp_path / name)
    with h5py.File(tmp_path / "a") as a, h5py.File(tmp_path / "b") as b:
        np.testing.assert_array_equal(a["embedding"][3:], b["embedding"][3:][::-1])


def test_a_table_for_another_vocabulary_or_width_is_refused(vocabulary: Vocabulary) -> None:
    path = DUMPS / "token_embeddings.hdf5"
    with pytest.raises(WeightsError, match=r"shape \(11, 8\).*12 words"):
        read_token_table(path, Vocabulary([*vocabulary.words, "more"]), width=WIDTH)
    with pytest.raises(WeightsError, match=r"shape \(11, 8\).*width 9"):
        read_token_table(path, vocabulary, width=9)


def test_files_that_are_no_tables_are_refused(tmp_path: Path, vocabulary: Vocabulary) -> None:
    (tmp_path / "text").write_text("the 0.1 0.2")
    with h5py.File(tmp_path / "other", "w") as file:
        file["vectors"] = np.zeros((11, WIDTH), np.float32)
    with h5py.File(tmp_path / "nan", "w") as file:
        file["embedding"] = np.full((11, WIDTH), np.nan, np.float32)
    for name in ("text", "other", "nan", "absent"):
        with pytest.raises(WeightsError, match=name):
            read_token_table(tmp_path / name, vocabulary, width=WIDTH)


def test_the_table_takes_part_in_training(vocabulary: Vocabulary) -> None:
    encoder = read_token_table(DUMPS / "token_embeddings.hdf5", vocabulary, width=WIDTH)
    encoder(torch.from_numpy(encoder.token_ids(["the"]))).sum().backward()
    assert encoder.embedding.grad is not None and encoder.embedding.grad[vocabulary.id_of("the")].any()
