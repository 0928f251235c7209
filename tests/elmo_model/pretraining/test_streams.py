"""The windows of pretraining: where sentences go, in which order, and from where they go on."""

import json
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.pretraining.streams import EmptyCorpusError, SentenceSource, Window, WindowStream
from support.pretraining import corpus_of

SENTENCES = [[f"w{number}.{place}" for place in range(number % 5)] for number in range(23)]


def stream(
    *, seed: int | None = 1, rows: int = 3, steps: int = 4, reverse: bool = False, block: int = 7
) -> WindowStream:
    source = SentenceSource(corpus_of(SENTENCES), seed=seed, block_size=block)
    return WindowStream(source, rows=rows, steps=steps, reverse=reverse)


def windows(stream: WindowStream, count: int) -> list[Window]:
    return [stream.next_window() for _ in range(count)]


@pytest.mark.parametrize("seed", [None, 1])
def test_an_epoch_gives_every_sentence_once(seed: int | None) -> None:
    source = SentenceSource(corpus_of(SENTENCES), seed=seed, block_size=7)
    for _ in range(2):
        epoch = [list(source.next_sentence()) for _ in SENTENCES]
        assert sorted(epoch) == sorted(SENTENCES)
        assert (epoch == SENTENCES) is (seed is None)


def test_epochs_and_seeds_differ_in_order_and_the_same_seed_does_not() -> None:
    def epochs(seed: int) -> list[list[str]]:
        source = SentenceSource(corpus_of(SENTENCES), seed=seed)
        return [list(source.next_sentence()) for _ in range(2 * len(SENTENCES))]

    first, second = epochs(1), epochs(2)
    assert first == epochs(1)
    assert first != second
    assert first[: len(SENTENCES)] != first[len(SENTENCES) :]


def test_no_more_than_a_block_is_read_ahead() -> None:
    read = 0

    def endless(epoch: int) -> Iterator[Sequence[str]]:
        nonlocal read
        while True:
            read += 1
            yield ["word"]

    source = SentenceSource(endless, seed=1, block_size=10)
    for _ in range(25):
        source.next_sentence()
    assert read == 30


@pytest.mark.parametrize("reverse", [False, True])
def test_each_row_is_a_run_of_wrapped_sentences_with_the_next_token_as_target(reverse: bool) -> None:
    drawn = windows(stream(reverse=reverse, rows=2), 12)
    begin, end = ("</S>", "<S>") if reverse else ("<S>", "</S>")
    for row in range(2):
        inputs = [token for window in drawn for token in window.inputs[row]]
        targets = [token for window in drawn for token in window.targets[row]]
        assert end not in inputs and begin not in targets
        for target, following in zip(targets, inputs[1:], strict=False):
            assert following == (begin if target == end else target)


@settings(max_examples=30, deadline=None)
@given(before=st.integers(0, 20), rows=st.integers(1, 4), steps=st.integers(1, 6), block=st.integers(1, 30))
def test_a_saved_stream_goes_on_exactly(before: int, rows: int, steps: int, block: int) -> None:
    straight = stream(rows=rows, steps=steps, block=block)
    windows(straight, before)
    saved = json.dumps(straight.state())
    wanted = windows(straight, 8)
    resumed = stream(rows=rows, steps=steps, block=block)
    resumed.restore(json.loads(saved))
    assert windows(resumed, 8) == wanted


def test_a_corpus_without_sentences_is_refused() -> None:
    empty = WindowStream(SentenceSource(corpus_of([]), seed=1), rows=1, steps=2, reverse=False)
    with pytest.raises(EmptyCorpusError, match="no sentences"):
        empty.next_window()
