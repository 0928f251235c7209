import json
import random
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.errors import DeviceError
from elmo_model.extractor import Extractor
from elmo_model.kernels.select import KernelName
from elmo_model.model_folder import ModelFiles
from elmo_model.weights import read_bilm
from support.bilms import (
    SEEDED,
    SEEDED_MODELS,
    SENTENCES,
    TOLERANCE,
    by_sentence,
    random_bilm,
    stacked,
    tiny_options,
)
from support.oracle import Oracle, State
from support.paths import shared

WORDS = st.sampled_from(["the", "cat", "sat", "語", "", "</S>", "x" * 60])
BATCHES = st.lists(st.lists(WORDS, max_size=7), min_size=1, max_size=6)


@pytest.mark.parametrize("name", SEEDED_MODELS)
@pytest.mark.parametrize(("kernel", "batch_size"), [("plain", 1), ("plain", 27), ("auto", 27)])
def test_all_layers_equal_those_of_the_originals(name: str, kernel: KernelName, batch_size: int) -> None:
    extractor = Extractor(read_bilm(SEEDED / name), kernel=kernel)
    with h5py.File(SEEDED / name / "expected.hdf5") as golden:
        for start in range(0, len(SENTENCES), batch_size):
            batch = SENTENCES[start : start + batch_size]
            for k, found in enumerate(by_sentence(stacked(extractor.encode(batch)), batch), start):
                np.testing.assert_allclose(found, golden[str(k)][()], atol=TOLERANCE, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", SEEDED_MODELS)
@pytest.mark.parametrize("kernel", ["plain", "auto"])
def test_a_gpu_gives_the_layers_of_the_originals(name: str, kernel: KernelName) -> None:
    extractor = Extractor(read_bilm(SEEDED / name), kernel=kernel, device="cuda")
    with h5py.File(SEEDED / name / "expected.hdf5") as golden:
        for start in (0, 7):
            batch = SENTENCES[start:]
            for k, found in enumerate(by_sentence(stacked(extractor.encode(batch)), batch), start):
                np.testing.assert_allclose(found, golden[str(k)][()], atol=2 * TOLERANCE, rtol=0)


@settings(deadline=None, max_examples=30)
@given(
    BATCHES,
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([None, 0.3, 3]),
    st.sampled_from([None, 0.3, 3]),
    st.sampled_from([(12, 6), (6, 6), (5, 7)]),
)
def test_random_models_equal_the_oracle(
    batch: list[list[str]],
    n_layers: int,
    skip: bool,
    cell_clip: float | None,
    proj_clip: float | None,
    sizes: tuple[int, int],
) -> None:
    options = tiny_options(
        dim=sizes[0],
        projection_dim=sizes[1],
        n_layers=n_layers,
        cell_clip=cell_clip,
        proj_clip=proj_clip,
        use_skip_connections=skip,
    )
    bilm = random_bilm(options)
    found = by_sentence(stacked(Extractor(bilm).encode(batch)), batch)
    oracle = Oracle.of(bilm)
    for sentence, layers in zip(batch, found, strict=True):
        np.testing.assert_allclose(layers, oracle.layers(sentence), atol=TOLERANCE, rtol=0)


def test_the_clips_bite_in_the_models_they_are_tested_on() -> None:
    batch = SENTENCES[4:7]
    clipped = stacked(Extractor(random_bilm()).encode(batch))
    loose = stacked(Extractor(random_bilm(tiny_options(cell_clip=1000, proj_clip=1000))).encode(batch))
    assert abs(clipped - loose).max() > 0.01


def test_layer_0_is_the_token_vector_twice_and_the_layers_differ() -> None:
    layers = stacked(Extractor(read_bilm(SEEDED / "base")).encode(SENTENCES))
    np.testing.assert_array_equal(layers[0, :, :8], layers[0, :, 8:])
    assert abs(layers[1] - layers[2]).max() > 0.1


@pytest.mark.parametrize(
    "columns", [["token"], ["forward_1"], ["backward_2", "token"], ["backward_1", "forward_2"], ["forward_3"]]
)
def test_columns_can_be_asked_for_one_by_one_with_the_same_values(columns: list[str]) -> None:
    bilm = random_bilm(tiny_options(n_layers=3))
    found = Extractor(bilm, columns=columns).encode(SENTENCES[:8]).columns
    whole = Extractor(bilm).encode(SENTENCES[:8]).columns
    assert sorted(found) == sorted(columns)
    for name, values in found.items():
        np.testing.assert_allclose(values, whole[name], atol=TOLERANCE)


@pytest.mark.parametrize(("columns", "broken"), [(["token"], 0), (["token", "backward_1"], 1), (["forward_1"], 1)])
def test_layers_and_directions_that_nobody_asked_for_are_not_computed(columns: list[str], broken: int) -> None:
    bilm = random_bilm()
    for layer in [*bilm.forward_layers[broken:], *bilm.backward_layers[broken:]]:
        for parameter in layer.parameters():
            parameter.data.fill_(float("nan"))
    if "forward_1" in columns:
        bilm.layer(0, ["backward"])[0].weight.data.fill_(float("nan"))
    for values in Extractor(bilm, columns=columns).encode(SENTENCES[:4]).columns.values():
        assert np.isfinite(values).all()


def test_an_unknown_column_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'forward_7'.*'token', 'forward_1', 'backward_1'"):
        Extractor(random_bilm(), columns=["forward_7"])
    with pytest.raises(ValueError, match="columns"):
        Extractor(random_bilm(), columns=[])


@settings(deadline=None, max_examples=30)
@given(BATCHES, st.randoms(use_true_random=False))
def test_a_sentence_does_not_depend_on_its_neighbours(batch: list[list[str]], order: random.Random) -> None:
    extractor = Extractor(random_bilm())
    together = by_sentence(stacked(extractor.encode(batch)), batch)
    places = list(range(len(batch)))
    order.shuffle(places)
    shuffled = [batch[place] for place in places]
    turned = by_sentence(stacked(extractor.encode(shuffled)), shuffled)
    for place, again in zip(places, turned, strict=True):
        alone = stacked(extractor.encode([batch[place]]))
        np.testing.assert_allclose(again, together[place], atol=TOLERANCE)
        np.testing.assert_allclose(alone, together[place], atol=TOLERANCE)


@settings(deadline=None, max_examples=30)
@given(st.lists(BATCHES, min_size=1, max_size=4), BATCHES)
def test_the_same_batch_gives_the_same_bits_whatever_came_before(
    before: list[list[list[str]]], batch: list[list[str]]
) -> None:
    used = Extractor(random_bilm(), cached_types=3)
    for other in before:
        used.encode(other)
    fresh = Extractor(random_bilm()).encode(batch)
    for name, values in used.encode(batch).columns.items():
        assert values.tobytes() == fresh.columns[name].tobytes()


@settings(deadline=None, max_examples=40)
@given(BATCHES, st.data())
def test_changing_a_token_changes_only_what_it_may_in_each_column(batch: list[list[str]], data: st.DataObject) -> None:
    places = [(k, t) for k, sentence in enumerate(batch) for t in range(len(sentence))]
    if not places:
        return
    k, t = data.draw(st.sampled_from(places))
    changed = [list(sentence) for sentence in batch]
    changed[k][t] = "other"
    extractor = Extractor(random_bilm(tiny_options(cell_clip=None, proj_clip=None)))
    before, after = (extractor.encode(sentences).columns for sentences in (batch, changed))
    start = sum(len(sentence) for sentence in batch[:k])
    here, end = start + t, start + len(batch[k])
    for name, values in before.items():
        moved = set(np.flatnonzero(abs(values - after[name]).max(axis=1) > TOLERANCE).tolist())
        direction = name.partition("_")[0]
        may = {"token": range(here, here + 1), "forward": range(here, end), "backward": range(start, here + 1)}[
            direction
        ]
        assert moved <= set(may), name
        assert here in moved, name


@pytest.mark.parametrize("batch", [[[]], [[], []], [["a", "b"], ["c"], ["d", "e"], []], []])
def test_empty_sentences_have_no_rows_and_ranks_never_collapse(batch: list[list[str]]) -> None:
    for carried_state in (False, True):
        features = Extractor(random_bilm(), carried_state=carried_state).encode(batch)
        for values in features.columns.values():
            assert values.shape == (sum(map(len, batch)), 6)
            assert values.dtype == np.float32


def test_results_own_their_memory_and_need_no_gradient() -> None:
    extractor = Extractor(random_bilm().requires_grad_(True))
    first = extractor.encode(SENTENCES[:3]).columns
    copies = {name: values.copy() for name, values in first.items()}
    second = extractor.encode(SENTENCES[:3]).columns
    for name, values in first.items():
        assert not np.shares_memory(values, second[name])
        second[name][:] = 0
        np.testing.assert_array_equal(values, copies[name])
        assert values.flags.writeable


def test_training_mode_does_not_reach_extraction() -> None:
    bilm = random_bilm()
    extractor = Extractor(bilm)
    expected = extractor.encode(SENTENCES[:5]).columns
    bilm.train()
    for name, values in extractor.encode(SENTENCES[:5]).columns.items():
        np.testing.assert_array_equal(values, expected[name])


def test_what_the_tokens_lose_is_counted_over_all_their_occurrences() -> None:
    extractor = Extractor(random_bilm())
    found = extractor.encode([["x" * 40, "</S>", "x" * 40], ["a\ud800", "fine"], ["</S>"]])
    assert found.counts == {"truncated_tokens": 2, "boundary_like_tokens": 2, "dropped_surrogates": 1}
    assert len(found.columns["token"]) == 6


class Token:
    text = "cat"


@pytest.mark.parametrize(
    ("sentences", "said"),
    [
        ("the cat", r"one string, 'the cat'; give lists of tokens, such as \[\['the', 'cat'\]"),
        (["the cat"], "a sentence is the string 'the cat'"),
        ([[Token()]], "a token is of type Token"),
        ([[1]], "a token is of type int"),
        ([[b"cat"]], "a token is of type bytes"),
    ],
)
def test_strings_are_no_token_lists(sentences: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Extractor(random_bilm()).encode(sentences)
    with pytest.raises(TypeError, match="give lists of tokens"):
        list(Extractor(random_bilm()).encode_stream(sentences, max_batch_tokens=10))


def test_a_stream_is_encoded_lazily_in_batches_under_the_budget() -> None:
    taken = 0

    def source() -> Any:
        nonlocal taken
        for k in range(12_000):
            taken += 1
            yield ["word"] * (300 if k == 40 else 3)

    stream = Extractor(random_bilm(), columns=["token"]).encode_stream(source(), max_batch_tokens=100)
    sizes = [len(next(stream).columns["token"]) for _ in range(3)]
    assert sizes == [99, 21, 300]
    assert taken < 80


def test_carried_state_equals_the_originals_batch_by_batch() -> None:
    extractor = Extractor(read_bilm(SEEDED / "base"), carried_state=True)
    with h5py.File(SEEDED / "base/stateful_batch4.hdf5") as golden:
        for _ in range(2):
            for start in range(0, len(SENTENCES), 4):
                batch = SENTENCES[start : start + 4]
                for k, found in enumerate(by_sentence(stacked(extractor.encode(batch)), batch), start):
                    np.testing.assert_allclose(found, golden[str(k)][()], atol=TOLERANCE)
            extractor.reset_state()


@pytest.mark.parametrize(
    ("file", "text", "batch_size"),
    [
        ("elmo_command/all.hdf5", "elmo_command/input.txt", 3),
        ("bilm_dumps/bilm_embeddings.hdf5", "bilm_dumps/input.txt", 1),
    ],
)
def test_carried_state_equals_the_original_programs_on_a_file(file: str, text: str, batch_size: int) -> None:
    lines = (SEEDED / "base" / text).read_bytes().decode().replace("\r\n", "\n").split("\n")
    sentences = [line.split() for line in lines if line or file.startswith("bilm")][: len(lines) - (lines[-1] == "")]
    extractor = Extractor(read_bilm(SEEDED / "base"), carried_state=True)
    with h5py.File(SEEDED / "base" / file) as golden:
        assert len(sentences) == len(set(golden) - {"sentence_to_index"})
        for start in range(0, len(sentences), batch_size):
            batch = sentences[start : start + batch_size]
            for k, found in enumerate(by_sentence(stacked(extractor.encode(batch)), batch), start):
                np.testing.assert_allclose(found, golden[str(k)][()], atol=TOLERANCE)


@settings(deadline=None, max_examples=25)
@given(st.lists(BATCHES, min_size=1, max_size=4))
def test_carried_state_equals_the_oracle_for_batches_that_shrink_and_grow(batches: list[list[list[str]]]) -> None:
    bilm = random_bilm()
    extractor, oracle = Extractor(bilm, carried_state=True), Oracle.of(bilm)
    states: list[dict[tuple[int, int], State]] = [{} for _ in range(6)]
    for batch in batches:
        found = by_sentence(stacked(extractor.encode(batch)), batch)
        for row, (sentence, layers) in enumerate(zip(batch, found, strict=True)):
            np.testing.assert_allclose(layers, oracle.layers(sentence, states[row]), atol=TOLERANCE)


def test_token_vectors_equal_a_bilm_tf_dump() -> None:
    words = (SEEDED / "base/bilm_dumps/vocab.txt").read_text().split()
    extractor = Extractor(read_bilm(SEEDED / "base"), columns=["token"])
    with h5py.File(SEEDED / "base/bilm_dumps/token_embeddings.hdf5") as golden:
        found = extractor.encode([words]).columns["token"]
        np.testing.assert_allclose(found, golden["embedding"][()], atol=TOLERANCE)


def test_a_word_model_equals_bilm_tf_reading_dumped_token_vectors(tmp_path: Any) -> None:
    options = json.loads((SEEDED / "base/options.json").read_text())
    del options["char_cnn"]
    files = ModelFiles(
        options=tmp_path / "options.json",
        weights=tmp_path / "weights.hdf5",
        vocabulary=SEEDED / "base/bilm_dumps/vocab.txt",
    )
    files.options.write_text(json.dumps(options))
    with h5py.File(files.weights, "w") as new, h5py.File(SEEDED / "base/weights.hdf5") as old:
        for name in ("RNN_0", "RNN_1"):
            old.copy(name, new)
        with h5py.File(SEEDED / "base/bilm_dumps/token_embeddings.hdf5") as dump:
            dump.copy("embedding", new)
    extractor = Extractor(read_bilm(files))
    with h5py.File(SEEDED / "base/bilm_dumps/token_id_path.hdf5") as golden:
        batch: list[list[str]] = json.loads(golden.attrs["sentences"])
        features = extractor.encode(batch)
        assert features.counts == {"unknown_words": 1}
        for k, found in enumerate(by_sentence(stacked(features), batch)):
            np.testing.assert_allclose(found, golden["lm_embeddings"][k, :, : len(batch[k])], atol=TOLERANCE)


@pytest.mark.parametrize("source", ["allennlp/elmo", "bilm-tf/model"])
def test_fixtures_that_the_originals_shipped_are_reproduced_with_carried_state(source: str) -> None:
    folder = shared(f"reference/original/{source}")
    files = ModelFiles(options=folder / "options.json", weights=folder / "lm_weights.hdf5")
    extractor = Extractor(read_bilm(files), columns=["forward_2", "backward_2"], carried_state=True)
    (path,) = folder.glob("*sentences.json")
    lists: list[list[str]] = json.loads(path.read_text())
    for k in range(10):
        batch = [sentences[k].split() for sentences in lists]
        found = extractor.encode(batch).columns
        bounds = np.cumsum([0, *map(len, batch)])
        for row in range(3):
            with h5py.File(folder / f"lm_embeddings_{row}.hdf5") as golden:
                expected = golden[str(k)][()]
            for direction, name in enumerate(("forward_2", "backward_2")):
                values = found[name][bounds[row] : bounds[row + 1]]
                np.testing.assert_allclose(values, expected[direction], atol=TOLERANCE)


def test_token_vectors_that_allennlp_shipped_are_reproduced() -> None:
    folder = shared("reference/original/allennlp/elmo")
    files = ModelFiles(options=folder / "options.json", weights=folder / "lm_weights.hdf5")
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").split("\n")
    found = Extractor(read_bilm(files), columns=["token"]).encode([words]).columns["token"]
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as golden:
        np.testing.assert_allclose(found, golden["embedding"][()], atol=TOLERANCE)


@pytest.mark.parametrize(
    ("device", "said"),
    [("quantum", "no device is called 'quantum'"), ("meta", "isn't supported"), ("cuda:77", "torch sees")],
)
def test_a_device_that_is_not_there_is_refused(device: str, said: str) -> None:
    with pytest.raises(DeviceError, match=said):
        Extractor(random_bilm(), device=device)
