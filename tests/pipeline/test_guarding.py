import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline.encoding import Encoded
from pipeline.errors import CarriedStateError, DeviceLostError, EncoderOutOfMemoryError, TooManyFailuresError
from pipeline.guarding import GuardedEncoder, Piece
from pipeline.records import Sentence
from support.fakes import COLUMNS, FakeEncoder

NAMES = [column.name for column in COLUMNS]


def sentences(*lines: str) -> list[Sentence]:
    return [
        Sentence(id=f"s{n}", tokens=tuple(line.split()), text=line, source="a.txt", line=n + 1)
        for n, line in enumerate(lines)
    ]


def outcome(pieces: list[Piece]) -> tuple[set[int], dict[int, str]]:
    good = {position for piece in pieces if piece.encoded is not None for position in piece.positions}
    return good, {piece.positions[0]: str(piece.reason) for piece in pieces if piece.encoded is None}


def test_one_bad_sentence_costs_no_other() -> None:
    lines = sentences(*["fine words"] * 4, "one BOOM here", *["fine words"] * 5)
    guarded = GuardedEncoder(FakeEncoder(NAMES), max_failures=10)
    good, bad = outcome(list(guarded.encode(lines, range(10))))
    assert good == set(range(10)) - {4}
    assert bad == {4: "RuntimeError: boom"}


def test_pieces_come_in_the_order_of_the_batch() -> None:
    guarded = GuardedEncoder(FakeEncoder(NAMES, most_sentences=2), max_failures=0)
    pieces = list(guarded.encode(sentences(*"abcdefgh"), range(8)))
    assert [position for piece in pieces for position in piece.positions] == list(range(8))


def test_a_batch_that_does_not_fit_is_halved_and_the_size_is_remembered() -> None:
    encoder = FakeEncoder(NAMES, most_sentences=2)
    guarded = GuardedEncoder(encoder, max_failures=0)
    lines = sentences(*["a b"] * 8)
    assert outcome(list(guarded.encode(lines, range(8)))) == (set(range(8)), {})
    attempts: list[int] = []
    encode = encoder.encode

    def counted(batch: list[tuple[str, ...]]) -> Encoded:
        attempts.append(len(batch))
        return encode(batch)

    encoder.encode = counted  # type: ignore[assignment,method-assign]
    list(guarded.encode(lines, range(8)))
    assert attempts == [2, 2, 2, 2]


def test_a_single_sentence_that_does_not_fit_fails_by_name() -> None:
    guarded = GuardedEncoder(FakeEncoder(NAMES, most_sentences=0), max_failures=5)
    good, bad = outcome(list(guarded.encode(sentences("a", "b"), [0, 1])))
    assert good == set()
    assert all(EncoderOutOfMemoryError.__name__ in reason for reason in bad.values()) and len(bad) == 2


def test_the_failure_limit_stops_and_names_the_sentence() -> None:
    guarded = GuardedEncoder(FakeEncoder(NAMES), max_failures=1)
    with pytest.raises(TooManyFailuresError, match=r"more than 1 .*'s2'.*a\.txt:3"):
        list(guarded.encode(sentences("BOOM", "x", "BOOM"), [0, 1, 2]))


def test_a_lost_device_ends_the_work_with_the_sentence_named() -> None:
    guarded = GuardedEncoder(FakeEncoder(NAMES), max_failures=100)
    with pytest.raises(DeviceLostError, match="'s0'"):
        list(guarded.encode(sentences("GONE", "x"), [0, 1]))


def test_carried_state_cannot_go_on_without_a_batch() -> None:
    guarded = GuardedEncoder(FakeEncoder(NAMES), max_failures=100, carried_state=True)
    with pytest.raises(CarriedStateError, match="'s0'"):
        list(guarded.encode(sentences("x", "BOOM"), [0, 1]))


class OutOfMemoryOn(FakeEncoder):
    """Has no memory for sentences with the token BIG."""

    def encode(self, sentences: Sequence[Sequence[str]]) -> Encoded:
        if any("BIG" in tokens for tokens in sentences):
            raise EncoderOutOfMemoryError("no room")
        return super().encode(sentences)


def test_a_single_sentence_that_does_not_fit_is_computed_by_the_spare_and_counted() -> None:
    spares = []

    def load() -> FakeEncoder:
        spares.append(FakeEncoder(NAMES))
        return spares[-1]

    guarded = GuardedEncoder(OutOfMemoryOn(NAMES), max_failures=0, load_spare=load)
    lines = sentences("a", "b", "a BIG one", "c", "d", "so BIG")
    pieces = list(guarded.encode(lines, range(6)))
    assert outcome(pieces) == (set(range(6)), {})
    on_spare = [
        piece.positions for piece in pieces if piece.encoded is not None and "encoded_on_spare" in piece.encoded.counts
    ]
    assert on_spare == [(2,), (5,)]
    assert len(spares) == 1, "the spare is loaded once, and only when it is needed"
    assert spares[0].batches == [[3], [2]]


def test_what_the_spare_cannot_compute_fails_by_name() -> None:
    guarded = GuardedEncoder(OutOfMemoryOn(NAMES), max_failures=5, load_spare=lambda: OutOfMemoryOn(NAMES))
    assert outcome(list(guarded.encode(sentences("BIG"), [0])))[1] == {0: "EncoderOutOfMemoryError: no room"}


def test_a_lost_device_is_not_tried_again() -> None:
    encoder = FakeEncoder(NAMES)
    guarded = GuardedEncoder(encoder, max_failures=5)
    for text in ("all is GONE", "fine"):
        with pytest.raises(DeviceLostError, match="at sentence 's0': the device is gone"):
            list(guarded.encode(sentences(text), [0]))
    assert encoder.batches == []


def test_threads_compute_one_at_a_time() -> None:
    class Counting(FakeEncoder):
        inside = 0
        most = 0

        def encode(self, sentences: Sequence[Sequence[str]]) -> Encoded:
            self.inside += 1
            self.most = max(self.most, self.inside)
            time.sleep(0.01)
            self.inside -= 1
            return super().encode(sentences)

    encoder = Counting(NAMES)
    guarded = GuardedEncoder(encoder, max_failures=0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: list(guarded.encode(sentences("a b"), [0])), range(12)))
    assert encoder.most == 1 and len(encoder.batches) == 12
