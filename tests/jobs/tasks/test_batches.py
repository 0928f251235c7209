"""Batches of task models: word bytes, the words known, and every sentence once in rows of its own."""

import torch

from jobs.tasks.batches import TaskData
from jobs.tasks.words import UNKNOWN, WordIndex, byte_ids
from support.tasks import tagged_sentences

SENTENCES = tagged_sentences(70)


def test_bytes_are_raised_by_one_padded_with_zero_and_cut() -> None:
    ids = byte_ids(["ab", "é", "x" * 40, "\ud800"])
    assert ids.shape == (4, 24)
    assert ids[0].tolist() == [98, 99, *[0] * 22]
    assert ids[1, :3].tolist() == [0xC3 + 1, 0xA9 + 1, 0]
    assert ids[2].tolist() == [121] * 24
    assert ids[3, :2].tolist() == [ord("?") + 1, 0]
    assert byte_ids([]).shape == (0, 0)


def test_frequent_words_have_numbers_in_order_of_frequency_and_the_known_ones_follow() -> None:
    index = WordIndex.build([["a", "B", "b"], ["b", "A", "rare"]], known=["zebra", "b"])
    assert index.words() == ["b", "a", "zebra"]
    assert [index.number(word) for word in ("B", "a", "Zebra", "rare")] == [1, 2, 3, UNKNOWN]
    assert len(index) == 4


def test_every_sentence_comes_once_with_its_own_words_in_its_row() -> None:
    index = WordIndex.build((sentence.tokens for sentence in SENTENCES), min_count=1)
    data = TaskData(SENTENCES)
    for shuffle in (None, torch.Generator().manual_seed(0)):
        seen = []
        for batch in data.batches(index, size=4, shuffle=shuffle):
            for sentence, mask, places in zip(batch.sentences, batch.mask, batch.places, strict=True):
                numbers = batch.words[places[mask]].tolist()
                assert numbers == [index.number(token) for token in sentence.tokens]
                bytes_of = [bytes(row[row > 0].sub(1).tolist()).decode() for row in batch.characters[places[mask]]]
                assert tuple(bytes_of) == sentence.tokens
                seen.append(sentence.id)
        assert sorted(seen) == sorted(sentence.id for sentence in SENTENCES)


def test_a_generator_gives_another_order_each_time_and_the_same_again() -> None:
    index, data = WordIndex([]), TaskData(SENTENCES)

    def order(generator: torch.Generator) -> list[str]:
        return [s.id for batch in data.batches(index, size=4, shuffle=generator) for s in batch.sentences]

    generator = torch.Generator().manual_seed(3)
    first, second = order(generator), order(generator)
    assert first != second
    assert order(torch.Generator().manual_seed(3)) == first


def test_sentences_of_like_length_share_a_batch() -> None:
    index, data = WordIndex([]), TaskData(SENTENCES)
    padding = sum(int((~batch.mask).sum()) for batch in data.batches(index, size=8, shuffle=torch.Generator()))
    assert padding < 0.15 * sum(len(sentence.tokens) for sentence in SENTENCES)
