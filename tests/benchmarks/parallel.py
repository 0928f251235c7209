"""Ways to use the cores of one machine for the full-size model: threads inside operations, whole tasks, or processes.

    python tests/benchmarks/parallel.py [--tokens 20000] [--cores 2] [--text FILE.tsv]

"operations" lets torch split each operation over the cores, "tasks" is what the fast kernel does (a thread for each
direction and block of sentences), "processes" gives each core a model and a share of the batches of its own.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from elmo_model.extractor import Extractor
from elmo_model.kernels.workers import Workers
from pipeline.config import EncodeConfig
from support import speed

EWT = Path(__file__).resolve().parents[3] / "shared/data/pos-ud-english-ewt/dev.tsv"
BUDGET = EncodeConfig.batch_tokens


class InOperations(Workers):
    """One thread, in which torch splits the operations."""

    def __init__(self, cores: int) -> None:
        super().__init__(1)
        self._pool.submit(torch.set_num_threads, cores).result()


def encode(share: tuple[speed.Sentences, ...], threads: int, workers: type[Workers] | None = None) -> float:
    """The seconds that encoding takes, by the clock, once model and token vectors are there."""
    extractor = Extractor(speed.full_size_bilm(), consume=True, threads=threads)
    if workers is not None:
        pool = workers(torch.get_num_threads())
        for layer in extractor._layers:
            layer._workers = pool  # type: ignore[attr-defined]
    extractor.encode([["warm"] * 3] * 300)
    for batch in share:
        extractor.token_vectors.of(list({token for sentence in batch for token in sentence}))
    started = time.perf_counter()
    for batch in share:
        extractor.encode(batch)
    return time.perf_counter() - started


def one_core(share: tuple[speed.Sentences, ...]) -> float:
    torch.set_num_threads(1)
    return encode(share, 1)


def in_processes(batches: list[speed.Sentences], cores: int) -> float:
    shares: Iterable[tuple[speed.Sentences, ...]] = [tuple(batches[start::cores]) for start in range(cores)]
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        return max(pool.map(one_core, shares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--text", type=Path, default=EWT)
    arguments = parser.parse_args()
    cores = arguments.cores
    sentences = speed.tagged_sentences(arguments.text, tokens=arguments.tokens)
    batches = speed.batches(sentences, budget=BUDGET)
    torch.set_num_threads(cores)
    ways: dict[str, Callable[[], float]] = {
        "one core": lambda: encode(tuple(batches), 1),
        "operations": lambda: encode(tuple(batches), 1, InOperations),
        "tasks": lambda: encode(tuple(batches), cores),
        "processes": lambda: in_processes(batches, cores),
    }
    seconds = {name: way() for name, way in ways.items()}
    tokens = sum(map(len, sentences))
    rows = [[name, f"{tokens / taken:.0f}", f"{seconds['one core'] / taken:.2f}"] for name, taken in seconds.items()]
    print(f"{tokens} tokens, {cores} cores")
    print(speed.table(["way", "tokens/s", "times one core"], rows))


if __name__ == "__main__":
    main()
