"""Large plans and commits, each in a process of its own: seconds and memory.

The shards of a commit are one real file under many names, each with its own receipt.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.commit import commit
from pipeline.config import CorpusConfig, DumpConfig, StoreConfig
from pipeline.inputs import list_inputs
from pipeline.planning import Plan, make_plan
from pipeline.receipts import read_receipt
from pipeline.scanning import PlannedShard
from pipeline.schema import receipt_name, shard_name
from pipeline.sealed import seal
from pipeline.storage import Folder
from support.fakes import COLUMNS, FakeEncoderFactory
from support.memory import peak_bytes
from support.paths import TESTS
from support.stores import make_receipt, make_sentences, write_finished_shards

_WORDS = [f"word{number}" for number in range(997)]
_SHARD_SENTENCES = 25


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Attributes: shards, sentences, wall and processor seconds of the step alone; peak bytes of the process."""

    shards: int
    sentences: int
    seconds: float
    processor: float
    peak: int


def measure(step: str, size: int) -> Measured:
    """Plans so many sentences (`plan`) or commits so many shards (`commit`) in a new process."""
    command = [sys.executable, "-m", "support.scale", step, str(size)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return Measured(**json.loads(done.stdout))


def _planning(folder: Path, sentences: int) -> Callable[[], tuple[int, int]]:
    corpus = folder / "corpus.txt"
    with corpus.open("w", encoding="utf-8") as file:
        file.writelines(f"{_WORDS[n % 997]} {_WORDS[n * 7 % 997]} {_WORDS[n * 31 % 997]}\n" for n in range(sentences))
    config = DumpConfig(corpus=CorpusConfig(), store=StoreConfig())
    inputs = list_inputs([str(corpus)], config.corpus)
    spec = FakeEncoderFactory().describe()

    def step() -> tuple[int, int]:
        plan = make_plan(inputs, Folder(folder / "out"), config=config, spec=spec, columns=COLUMNS)
        return len(plan.shards), plan.sentences

    return step


def _committing(path: Path, shards: int) -> Callable[[], tuple[int, int]]:
    folder = Folder(path)
    first = write_finished_shards(folder, [make_sentences([5] * _SHARD_SENTENCES)], columns=COLUMNS)
    written = read_receipt(folder, 0)
    tokens = first.shards[0].tokens
    planned = [PlannedShard(number=number, sentences=_SHARD_SENTENCES, tokens=tokens) for number in range(shards)]
    plan = Plan(settings=first.settings, shards=tuple(planned), counts=first.counts)
    for shard in planned[1:]:
        os.link(path / written.file, path / shard_name(shard.number, written.sha256, "hdf5"))
        receipt = make_receipt(plan, shard, sha256=written.sha256, size=written.bytes)
        (path / receipt_name(shard.number)).write_bytes(seal(asdict(receipt)))

    def step() -> tuple[int, int]:
        manifest = commit(folder, plan)
        return len(manifest.shards), manifest.sentences

    return step


def _main(step: str, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = {"plan": _planning, "commit": _committing}[step](Path(folder), size)
        wall, processor = time.monotonic(), time.process_time()
        shards, sentences = run()
        seconds, used = time.monotonic() - wall, time.process_time() - processor
    peak = peak_bytes()
    print(json.dumps(asdict(Measured(shards=shards, sentences=sentences, seconds=seconds, processor=used, peak=peak))))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
