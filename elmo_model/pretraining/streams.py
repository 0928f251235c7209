"""The data of pretraining: windows of a fixed shape, cut from endless streams of sentences.

Every row of a batch is its own stream over one shared source of sentences. A sentence is wrapped in boundaries; a row
reads its tokens as inputs and the tokens after them as targets, goes on with it in the next window if it doesn't fit,
and takes the next sentence when it ends. The backward direction reads another source, each sentence reversed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from elmo_model.characters import BEGIN_SENTENCE, END_SENTENCE
from elmo_model.errors import ElmoModelError

Sentences = Callable[[int], Iterator[Sequence[str]]]
"""The sentences of an epoch, numbered from 0; the same number must give the same sentences."""

SHUFFLE_BLOCK = 500_000  # sentences held and shuffled together: what bounds the memory, however large the corpus


class EmptyCorpusError(ElmoModelError):
    """The corpus has no sentences, or too few to fill a batch."""


@dataclass(frozen=True)
class Window:
    """Inputs and targets of one direction.

    Attributes:
        inputs: Tokens, (batch rows) lists of (time) strings.
        targets: The tokens after them, of the same shape.
    """

    inputs: list[list[str]]
    targets: list[list[str]]


class SentenceSource:
    """An endless sequence of sentences, epoch after epoch, shuffled in blocks; its position can be saved.

    Args:
        sentences: The corpus.
        seed: Of the shuffle; None reads in order.
        block_size: Sentences that are shuffled together.
    """

    def __init__(self, sentences: Sentences, *, seed: int | None, block_size: int = SHUFFLE_BLOCK) -> None:
        self._sentences = sentences
        self._seed = seed
        self._block_size = block_size
        self.epoch = 0
        self._block_number = 0
        self._block: list[list[str]] = []
        self._taken = 0
        self._reader = sentences(0)

    def next_sentence(self) -> Sequence[str]:
        """The next sentence.

        Raises:
            EmptyCorpusError: An epoch has no sentence.
        """
        while self._taken == len(self._block):
            self._block_number += bool(self._block)
            self._read_block()
        sentence = self._block[self._taken]
        self._taken += 1
        return sentence

    def _read_block(self) -> None:
        # Interned, each distinct word is held once.
        block = [list(map(sys.intern, sentence)) for sentence in islice(self._reader, self._block_size)]
        if not block:
            if self._block_number == 0:
                raise EmptyCorpusError("the corpus holds no sentences; pretraining needs text")
            self.epoch += 1
            self._block_number = 0
            self._reader = self._sentences(self.epoch)
        elif self._seed is not None:
            order = np.random.default_rng([self._seed, self.epoch, self._block_number]).permutation(len(block))
            block = [block[index] for index in order]
        self._block, self._taken = block, 0

    def position(self) -> dict[str, int]:
        """Where the source stands, for `seek`."""
        return {"epoch": self.epoch, "block": self._block_number, "taken": self._taken}

    def seek(self, position: dict[str, int]) -> None:
        """Goes to a saved position; reads the epoch again up to it."""
        self.epoch, self._block_number = position["epoch"], position["block"]
        self._reader = self._sentences(self.epoch)
        for _ in islice(self._reader, self._block_number * self._block_size):
            pass
        self._block = []
        if position["taken"]:
            self._read_block()
        self._taken = position["taken"]


class WindowStream:
    """Windows of one direction.

    Args:
        source: Where the rows take their sentences from.
        rows: Rows of a window.
        steps: Tokens of a row in a window.
        reverse: Whether to read sentences from their end, as the backward direction does.
    """

    def __init__(self, source: SentenceSource, *, rows: int, steps: int, reverse: bool) -> None:
        self.source = source
        self._steps = steps
        self._reverse = reverse
        # What each row has yet to read: its last token has been a target only, or will be one only.
        self._pending: list[list[str]] = [[] for _ in range(rows)]

    def next_window(self) -> Window:
        """The next window; rows are filled in order."""
        inputs: list[list[str]] = []
        targets: list[list[str]] = []
        for row, left in enumerate(self._pending):
            pending = left
            read: list[str] = []
            wanted: list[str] = []
            while len(read) < self._steps:
                if len(pending) < 2:
                    pending = self._wrapped(self.source.next_sentence())
                count = min(len(pending) - 1, self._steps - len(read))
                read += pending[:count]
                wanted += pending[1 : count + 1]
                pending = pending[count:]
            self._pending[row] = pending
            inputs.append(read)
            targets.append(wanted)
        return Window(inputs, targets)

    def _wrapped(self, sentence: Sequence[str]) -> list[str]:
        if self._reverse:
            return [END_SENTENCE, *reversed(sentence), BEGIN_SENTENCE]
        return [BEGIN_SENTENCE, *sentence, END_SENTENCE]

    def state(self) -> dict[str, Any]:
        """All that the coming windows depend on, as JSON values."""
        return {"source": self.source.position(), "pending": list(self._pending)}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state."""
        self.source.seek(state["source"])
        self._pending = list(state["pending"])
