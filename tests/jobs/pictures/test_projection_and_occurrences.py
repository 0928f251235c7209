"""The projection against the covariance matrix, occurrences and their cosines, and the line around a word."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.occurrences import Occurrence, find_occurrences, similarities
from jobs.pictures.projection import principal_components
from pipeline.errors import ConfigError, MissingColumnError
from pipeline.reader import FeatureStore
from support.cli import elmo
from support.tasks import dumped, tagged_sentences

SENTENCES = tagged_sentences(24)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return dumped(SENTENCES, tmp_path_factory.mktemp("store"))


def test_components_are_the_leading_eigenvectors_of_the_covariance() -> None:
    vectors = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32) * [5, 3, 1, 0.5, 0.1]
    found = principal_components(list(vectors))
    centred = vectors - vectors.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    for number in (0, 1):
        expected = centred @ axes[:, -1 - number]
        np.testing.assert_allclose(np.abs(found.points[:, number]), np.abs(expected), atol=1e-5)
        assert found.explained[number] == pytest.approx(values[-1 - number] / values.sum(), abs=1e-6)
    np.testing.assert_array_equal(principal_components(list(vectors)).points, found.points)


def test_one_vector_and_equal_ones_lie_at_the_middle() -> None:
    for count in (1, 3):
        found = principal_components([np.ones(4, dtype=np.float32)] * count)
        np.testing.assert_allclose(found.points, 0, atol=1e-12)


def test_every_occurrence_is_found_with_its_vector(store: FeatureStore) -> None:
    found, total = find_occurrences(store, "ROME", layer=1)
    expected = [(s.id, place) for s in SENTENCES for place, token in enumerate(s.tokens) if token == "Rome"]
    assert [(occurrence.id, occurrence.position) for occurrence in found] == expected
    assert total == len(expected)
    for occurrence in found:
        np.testing.assert_array_equal(occurrence.vector, store[occurrence.id].layers(only=[1])[0, occurrence.position])


def test_a_limit_takes_the_same_ones_every_time(store: FeatureStore) -> None:
    few, total = find_occurrences(store, "cat", limit=4)
    assert len(few) == 4 < total
    again, _ = find_occurrences(store, "cat", limit=4)
    assert [(o.id, o.position) for o in few] == [(o.id, o.position) for o in again]


def test_a_word_or_layer_that_is_not_there_is_named(store: FeatureStore) -> None:
    with pytest.raises(ConfigError, match="'dog'"):
        find_occurrences(store, "dog")
    with pytest.raises(MissingColumnError, match="not 9"):
        find_occurrences(store, "cat", layer=9)


def test_cosines_are_those_of_the_definition_and_zero_for_zero_vectors() -> None:
    one, two, none = (np.array(v, dtype=np.float32) for v in ([3, 4], [4, 3], [0, 0]))
    np.testing.assert_allclose(similarities([one, none], [two, one]), np.array([[0.96, 1.0], [0.0, 0.0]]), atol=1e-12)


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=8), min_size=1, max_size=30), st.data())
def test_the_line_around_a_word_has_whole_words_in_order(tokens: list[str], data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(tokens) - 1))
    occurrence = Occurrence(id="a", position=position, tokens=tuple(tokens), vector=np.zeros(1, dtype=np.float32))
    before, word, after = occurrence.around(20)
    assert word == tokens[position]
    left, right = before.split(), after.split()
    if left and left[0] == "…":
        left = left[1:]
        assert len(left) < position
    else:
        assert len(left) == position
    assert left == tokens[position - len(left) : position]
    right = right[:-1] if right and right[-1] == "…" else right
    assert right == tokens[position + 1 : position + 1 + len(right)]
    assert len(" ".join([*left, word, *right])) <= 20 + 8 + len(word)


def test_neighbours_are_printed_nearest_first(
    store: FeatureStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = elmo(capsys, "neighbours", store._folder.url, "Rome", "--show", "2", "--nearest", "3")
    assert result.code == 0, result.err
    lines = [line for line in result.out.splitlines() if line.startswith("  0.") or line.startswith("  1.")]
    cosines = [float(line.split()[0]) for line in lines]
    assert len(cosines) == 6
    assert cosines[:3] == sorted(cosines[:3], reverse=True)
    assert "[Rome]" in lines[0]
