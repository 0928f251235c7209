from hypothesis import given
from hypothesis import strategies as st

from pipeline.batching import batches_by_length, batches_in_order

LENGTHS = st.lists(st.integers(min_value=0, max_value=60), max_size=80)


@given(LENGTHS, st.integers(min_value=1, max_value=200))
def test_every_sentence_with_tokens_is_in_exactly_one_batch(lengths: list[int], budget: int) -> None:
    batches = batches_by_length(lengths, batch_tokens=budget)
    assert sorted(position for batch in batches for position in batch) == [
        position for position, length in enumerate(lengths) if length
    ]


@given(LENGTHS, st.integers(min_value=1, max_value=200))
def test_the_budget_is_a_hard_limit_but_for_one_longer_sentence_alone(lengths: list[int], budget: int) -> None:
    for batch in batches_by_length(lengths, batch_tokens=budget):
        padded = len(batch) * max(lengths[position] for position in batch)
        assert padded <= budget or len(batch) == 1


def test_mixed_lengths_are_cut_as_documented() -> None:
    assert batches_by_length([60, 60, 150, 10], batch_tokens=100) == [[2], [0], [1], [3]]
    assert batches_by_length([3, 0, 5, 3, 1], batch_tokens=10) == [[2, 0], [3, 4]]
    assert batches_by_length([], batch_tokens=10) == []
    assert batches_by_length([0, 0], batch_tokens=10) == []


def test_one_giant_sentence_goes_alone_and_first() -> None:
    batches = batches_by_length([10] * 1000 + [20_000], batch_tokens=8192)
    assert batches[0] == [1000]
    assert sum(map(len, batches)) == 1001


@given(st.integers(min_value=0, max_value=50), st.integers(min_value=1, max_value=9))
def test_batches_in_order_keep_file_order(sentences: int, size: int) -> None:
    batches = batches_in_order(sentences, batch_sentences=size)
    assert [position for batch in batches for position in batch] == list(range(sentences))
    assert all(len(batch) == size for batch in batches[:-1])
