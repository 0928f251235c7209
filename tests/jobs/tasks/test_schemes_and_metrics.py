"""Tag schemes and measures, against plain definitions on random tags."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.tasks.metrics import accuracy, entity_f1
from jobs.tasks.schemes import is_iob2, may_follow, to_bioul, to_iob2

ENTITY = st.tuples(st.sampled_from(["", "A", "B-x"]), st.integers(1, 3))


def tags_of(entities: Sequence[tuple[str, int]]) -> list[str]:
    tags: list[str] = []
    for kind, length in entities:
        tags += [f"B-{kind}", *[f"I-{kind}"] * (length - 1)] if kind else ["O"] * length
    return tags


def spans(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Entities of IOB2 tags as start, end, type."""
    starts = [position for position, tag in enumerate(tags) if tag[0] == "B"]
    found = set()
    for start in starts:
        end = start + 1
        while end < len(tags) and tags[end][0] == "I":
            end += 1
        found.add((start, end, tags[start][2:]))
    return found


@given(st.lists(ENTITY, max_size=6))
def test_bioul_and_back_is_the_same_and_every_step_is_allowed(entities: list[tuple[str, int]]) -> None:
    tags = tags_of(entities)
    bioul = to_bioul(tags)
    assert to_iob2(bioul) == tags
    assert all(may_follow(left, right) for left, right in itertools.pairwise([None, *bioul, None]))


def test_bioul_marks_single_and_last_tokens() -> None:
    assert to_bioul(["B-A", "B-A", "I-A", "I-A", "O"]) == ["U-A", "B-A", "I-A", "L-A", "O"]


@pytest.mark.parametrize("tags", [["I-A"], ["B-A", "I-B"], ["X"], ["B-"], ["O", "I-A"]])
def test_tags_that_are_not_iob2_are_refused(tags: list[str]) -> None:
    with pytest.raises(ValueError, match=tags[-1]):
        to_bioul(tags)


@pytest.mark.parametrize(
    ("left", "right", "allowed"),
    [
        (None, "I-A", False),
        (None, "L-A", False),
        ("B-A", None, False),
        ("B-A", "O", False),
        ("B-A", "L-B", False),
        ("L-A", "I-A", False),
        ("O", "L-A", False),
        ("I-A", "I-A", True),
        ("L-A", "B-A", True),
        ("U-A", None, True),
    ],
)
def test_which_tags_may_follow_each_other(left: str | None, right: str | None, allowed: bool) -> None:
    assert may_follow(left, right) is allowed


def test_tags_of_entities_are_told_from_parts_of_speech() -> None:
    assert is_iob2({"O", "B-PER", "I-PER"})
    assert not is_iob2({"NOUN", "VERB", "O"})
    assert not is_iob2({"O"})


@given(
    st.lists(
        st.tuples(st.lists(ENTITY, max_size=4), st.lists(ENTITY, max_size=4), st.booleans()), min_size=1, max_size=4
    )
)
def test_f1_counts_whole_entities(pairs: list[tuple[list[tuple[str, int]], list[tuple[str, int]], bool]]) -> None:
    right, predicted = [], []
    for first, second, same in pairs:
        gold, guess = tags_of(first), tags_of(first if same else second)
        length = max(len(gold), len(guess))
        right.append([*gold, *["O"] * (length - len(gold))])
        predicted.append([*guess, *["O"] * (length - len(guess))])
    found = sum(len(spans(gold) & spans(guess)) for gold, guess in zip(right, predicted, strict=True))
    possible = sum(len(spans(gold)) for gold in right)
    actual = sum(len(spans(guess)) for guess in predicted)
    expected = 2 * found / (possible + actual) if found else 0.0
    score = entity_f1([to_bioul(tags) for tags in right], [to_bioul(tags) for tags in predicted])
    assert score == pytest.approx(expected)


def test_accuracy_counts_tokens_of_all_sentences_alike() -> None:
    assert accuracy([["A"], ["A", "B", "C"]], [["B"], ["A", "B", "C"]]) == 0.75
    assert accuracy([], []) == 0.0
