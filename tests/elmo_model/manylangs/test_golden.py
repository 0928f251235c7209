"""Models of ELMoForManyLangs against what the original program computes with them."""

import json
from collections.abc import Iterator
from typing import get_args

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from elmo_model.extractor import Extractor, Features
from elmo_model.kernels.select import KernelName
from elmo_model.manylangs.lstm_encoder import LstmExtractor
from elmo_model.manylangs.model import ManyLangsModel
from support.paths import GOLDEN

MANYLANGS = GOLDEN / "manylangs"
STACKED = ["char_only_elmo", "char_word_elmo", "clip_3layer_elmo", "word_lstm_token_embedder", "word_only_elmo"]
KERNELS = get_args(KernelName)
TO_FLOAT64, TO_FLOAT32, CARRIED = 1e-5, 2e-5, 5e-5


def sentences(model: str) -> list[list[str]]:
    with h5py.File(MANYLANGS / model / "expected.h5") as file:
        return [sentence["tokens"] for sentence in json.loads(file.attrs["sentences"])]


def expected(model: str, group: str) -> list[NDArray[np.float64]]:
    with h5py.File(MANYLANGS / model / "expected.h5") as file:
        return [file[group][name][()] for name in sorted(file[group])]


def published(features: Features, lengths: list[int]) -> list[NDArray[np.float32]]:
    """All layers of each sentence, (layers, tokens, 2p), the token vector twice."""
    columns = features.columns
    n_layers = (len(columns) - 1) // 2
    pairs = [("token", "token"), *((f"forward_{k}", f"backward_{k}") for k in range(1, n_layers + 1))]
    stacked = np.stack([np.concatenate([columns[name] for name in pair], axis=1) for pair in pairs])
    return np.split(stacked, np.cumsum(lengths)[:-1], axis=1)


def encoded(extractor: Extractor, batch: list[list[str]]) -> list[NDArray[np.float32]]:
    return published(extractor.encode(batch), [len(sentence) for sentence in batch])


def largest_gap(found: list[NDArray[np.float32]], wanted: list[NDArray[np.float64]]) -> float:
    assert [array.shape for array in found] == [array.shape for array in wanted]
    return max(float(np.abs(a - b).max()) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", STACKED)
def test_all_layers_are_those_of_the_original_from_zero_state(model: str, kernel: KernelName) -> None:
    extractor = Extractor(ManyLangsModel.open(MANYLANGS / model).read_bilm(), kernel=kernel)
    together = encoded(extractor, sentences(model))
    assert largest_gap(together, expected(model, "alone_float64")) < TO_FLOAT64
    assert largest_gap(together, expected(model, "alone")) < TO_FLOAT32
    assert largest_gap(together, expected(model, "one_batch")) < TO_FLOAT32
    alone = [encoded(extractor, [sentence])[0] for sentence in sentences(model)]
    assert largest_gap(alone, expected(model, "alone_float64")) < TO_FLOAT64


@pytest.mark.parametrize("folder", ["char_word_elmo_legacy", "char_word_elmo_legacy_cuda"])
def test_legacy_pickles_give_the_same_numbers_and_digest(folder: str) -> None:
    model = ManyLangsModel.open(MANYLANGS / folder)
    gap = largest_gap(
        encoded(Extractor(model.read_bilm()), sentences("char_word_elmo")), expected("char_word_elmo", "alone_float64")
    )
    assert gap < TO_FLOAT64
    assert model.digest() == ManyLangsModel.open(MANYLANGS / "char_word_elmo").digest()


def test_digests_of_different_models_differ() -> None:
    models = [*STACKED, "char_word_lstm_encoder"]
    assert len({ManyLangsModel.open(MANYLANGS / model).digest() for model in models}) == len(models)


@pytest.mark.parametrize("model", ["char_word_elmo", "clip_3layer_elmo"])
def test_the_mean_of_the_layers_is_the_default_output_of_the_original(model: str) -> None:
    found = encoded(Extractor(ManyLangsModel.open(MANYLANGS / model).read_bilm()), sentences(model))
    assert largest_gap([layers.mean(axis=0) for layers in found], expected(model, "output_layer_-1")) < TO_FLOAT64
    for layer in range(len(found[0])):
        wanted = expected(model, f"output_layer_{layer}")
        assert largest_gap([layers[layer] for layers in found], wanted) < TO_FLOAT32


def batches(model: str, group: str) -> Iterator[list[int]]:
    """The sentence numbers of each batch, in the order in which the original ran them."""
    count = len(sentences(model))
    if group == "one_by_one":
        yield from ([number] for number in range(count))
    elif group == "batches_of_4":
        with h5py.File(MANYLANGS / model / "expected.h5") as file:
            yield from json.loads(file[group].attrs["batches"])
    else:
        lengths = [len(sentence) for sentence in sentences(model)]
        longest_first = sorted(range(count), key=lambda number: -lengths[number])
        yield from (longest_first, longest_first)


@pytest.mark.parametrize("group", ["one_by_one", "batches_of_4", "one_batch_second_call"])
@pytest.mark.parametrize("model", STACKED)
def test_carried_state_is_that_of_the_original(model: str, group: str) -> None:
    extractor = Extractor(ManyLangsModel.open(MANYLANGS / model).read_bilm(), carried_state=True)
    tokens = sentences(model)
    found: dict[int, NDArray[np.float32]] = {}
    for batch in batches(model, group):
        found.update(zip(batch, encoded(extractor, [tokens[number] for number in batch]), strict=True))
    assert largest_gap([found[number] for number in range(len(tokens))], expected(model, group)) < CARRIED
    assert largest_gap([found[number] for number in range(len(tokens))], expected(model, "alone")) > 0.1


def test_the_lstm_encoder_gives_the_numbers_of_a_sentence_alone_whatever_its_batch() -> None:
    name = "char_word_lstm_encoder"
    extractor = LstmExtractor(ManyLangsModel.open(MANYLANGS / name).read_lstm_encoder())
    tokens = sentences(name)
    together = extractor.encode(tokens).columns["output"]
    found = np.split(together, np.cumsum([len(sentence) for sentence in tokens])[:-1])
    assert largest_gap(found, expected(name, "alone_float64")) < TO_FLOAT64
    assert largest_gap(found, expected(name, "one_batch")) > 0.1  # there, neighbours change the numbers
    alone = [extractor.encode([sentence]).columns["output"] for sentence in tokens]
    assert largest_gap(alone, expected(name, "alone")) < TO_FLOAT32


def test_a_sentence_without_tokens_has_no_rows() -> None:
    extractor = LstmExtractor(ManyLangsModel.open(MANYLANGS / "char_word_lstm_encoder").read_lstm_encoder())
    both = extractor.encode([[], ["fox"]]).columns["output"]
    np.testing.assert_array_equal(both, extractor.encode([["fox"], []]).columns["output"])
    assert extractor.encode([[]]).columns["output"].shape == (0, 20)


def test_the_command_line_output_of_the_original_is_reproduced() -> None:
    folder = MANYLANGS / "cli"
    lines = (folder / "input.txt").read_text(encoding="utf-8").strip().split("\n")
    tokens = [line.split("\t") for line in lines if line]
    found = encoded(Extractor(ManyLangsModel.open(MANYLANGS / "char_word_elmo").read_bilm()), tokens)
    with h5py.File(folder / "plain.ly2.hdf5") as top, h5py.File(folder / "plain.ly-1.hdf5") as mean:
        for sentence, layers in zip(tokens, found, strict=True):
            key = "\t".join(sentence).replace(".", "$period$").replace("/", "$backslash$")
            np.testing.assert_allclose(layers[2], top[key][()], atol=TO_FLOAT32)
            np.testing.assert_allclose(layers.mean(axis=0), mean[key][()], atol=TO_FLOAT32)
