"""What the speed measurements share: a full-size model, real sentences, and the ceiling they are compared with.

Times are processor times of this process: each thread of the kernels computes alone, so they add up, and other work on
the machine counts as little as it can. The ceiling is measured in between, by the same clock.
"""

import gzip
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from elmo_model.bilm import BiLm, build_bilm
from elmo_model.kernels.int8_linear import int8_linear
from elmo_model.kernels.packed_linear import packed_linear
from elmo_model.kernels.workers import Workers
from elmo_model.options import ElmoOptions

Sentences = list[list[str]]

FULL_SIZE: dict[str, Any] = {
    "lstm": {
        "dim": 4096,
        "projection_dim": 512,
        "n_layers": 2,
        "cell_clip": 3,
        "proj_clip": 3,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "embedding": {"dim": 16},
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "activation": "relu",
        "n_highway": 2,
        "max_characters_per_token": 50,
    },
}
STEP_FLOPS = 2 * (1024 * 16384 + 4096 * 512)  # of one token in one layer and direction
LSTM_FLOPS = 4 * STEP_FLOPS
# Of a character's place, and of a word type with the projection.
_CONVOLUTION_FLOPS: int = 2 * 16 * sum(width * count for width, count in FULL_SIZE["char_cnn"]["filters"])
_HIGHWAY_FLOPS = 2 * (2 * 2 * 2048 * 2048 + 2048 * 512)
CEILING_ROWS = 256


def type_flops(token: str) -> int:
    """The products for the vector of a word type, padding left out: no more than the least that has to be done."""
    return _HIGHWAY_FLOPS + (min(len(token.encode()), 48) + 2) * _CONVOLUTION_FLOPS


def full_size_bilm() -> BiLm:
    """The released model's shape, with initial random weights."""
    bilm = build_bilm(ElmoOptions.from_mapping(FULL_SIZE))
    bilm.reset_parameters(torch.Generator().manual_seed(0))
    return bilm.requires_grad_(False)


def tagged_sentences(path: Path, *, tokens: int) -> Sentences:
    """The first sentences of a file of `FORM<tab>TAG...` lines, in file order, up to a number of tokens."""
    with path.open(encoding="utf-8") as lines:
        return _first(_tagged(lines), tokens)


def text_sentences(paths: Sequence[Path], *, tokens: int) -> Sentences:
    """The first lines of gzipped texts, split at white space, up to a number of tokens."""

    def lines() -> Iterator[list[str]]:
        for path in paths:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                yield from (line.split() for line in file)

    return _first(lines(), tokens)


def batches(sentences: Sentences, *, budget: int) -> list[Sentences]:
    """Sentences by falling length, cut so that no batch has more than `budget` tokens, padding counted."""
    found: list[Sentences] = []
    for sentence in sorted(sentences, key=len, reverse=True):
        if not found or len(found[-1][0]) * (len(found[-1]) + 1) > budget:
            found.append([])
        found[-1].append(sentence)
    return found


class Ceiling:
    """The rate of bare matrix products of the model's shapes, computed on all threads at once, in GFLOP a second.

    So whatever the threads share, such as caches and memory, is shared in the ceiling as well.
    """

    def __init__(self, precision: str, *, threads: int = 1) -> None:
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        linear = int8_linear if precision == "int8" else packed_linear
        self._products = [
            (linear(torch.randn(outer, inner).to(dtype), None), torch.randn(CEILING_ROWS, inner).to(dtype))
            for outer, inner in ((16384, 1024), (512, 4096))
        ]
        self._workers = Workers(threads)
        self._rates: list[float] = []
        self._clock_rates: list[float] = []
        self.measure(rounds=2)
        self._rates.clear()
        self._clock_rates.clear()

    def measure(self, *, rounds: int = 3) -> None:
        """Measures a few times more."""
        threads = self._workers.threads
        ready = threading.Barrier(threads)

        def multiply(_: int) -> float:
            ready.wait()
            started = time.thread_time()
            for _ in range(rounds):
                for linear, rows in self._products:
                    linear(rows)
            return time.thread_time() - started

        flops = rounds * CEILING_ROWS * STEP_FLOPS / 1e9
        clock = time.perf_counter()
        taken = self._workers.map(multiply, range(threads))
        self._clock_rates.append(threads * flops / (time.perf_counter() - clock))
        self._rates += [flops / seconds for seconds in taken]

    @property
    def rate(self) -> float:
        """Of one thread, by its processor time: the middle of all measurements."""
        return median(self._rates)

    @property
    def clock_rate(self) -> float:
        """Of all threads together, by the clock: the middle of all measurements."""
        return median(self._clock_rates)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    cells = [list(header), ["---"] * len(header), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def _tagged(lines: Iterator[str]) -> Iterator[list[str]]:
    for blank, group in itertools.groupby(lines, key=lambda line: not line.strip()):
        if not blank:
            yield [line.split("\t")[0] for line in group if not line.startswith("# ")]


def _first(sentences: Iterator[list[str]], tokens: int) -> Sentences:
    found: Sentences = []
    count = 0
    for sentence in sentences:
        if count >= tokens:
            break
        if sentence:
            found.append(sentence)
            count += len(sentence)
    return found
