"""A plan of many sentences and a commit of many shards: seconds and memory.

    python tests/benchmarks/scale.py [--sentences 10000000] [--shards 20000]

Each part runs in a process of its own. The shards of the commit are one real file under many names, each with its own
receipt.
"""

import os
import resource
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent.parent))

from pipeline.commit import commit
from pipeline.config import CorpusConfig, DumpConfig, StoreConfig
from pipeline.inputs import list_inputs
from pipeline.planning import Plan, make_plan
from pipeline.scanning import PlannedShard
from pipeline.schema import receipt_name, shard_name
from pipeline.sealed import seal
from pipeline.storage import Folder
from support.fakes import COLUMNS, FakeEncoderFactory
from support.stores import make_receipt, make_sentences, write_finished_shards

_WORDS = [f"word{number}" for number in range(997)]
_SHARD_SENTENCES = 25


def plan_sentences(folder: Path, sentences: int) -> str:
    """Plans a corpus of short sentences, which was written first."""
    corpus = folder / "corpus.txt"
    with corpus.open("w", encoding="utf-8") as file:
        file.writelines(f"{_WORDS[n % 997]} {_WORDS[n * 7 % 997]} {_WORDS[n * 31 % 997]}\n" for n in range(sentences))
    config = DumpConfig(corpus=CorpusConfig(), store=StoreConfig())
    inputs = list_inputs([str(corpus)], config.corpus)
    before = time.monotonic()
    plan = make_plan(
        inputs, Folder(folder / "out"), config=config, spec=FakeEncoderFactory().describe(), columns=COLUMNS
    )
    return f"planned {plan.sentences:,} sentences in {len(plan.shards):,} shards in {time.monotonic() - before:.1f} s"


def commit_shards(folder: Path, shards: int) -> str:
    """Commits finished shards, which were made first."""
    first = write_finished_shards(Folder(folder), [make_sentences([5] * _SHARD_SENTENCES)], columns=COLUMNS)
    (file,) = (folder / "shards").iterdir()
    sha256 = Folder(folder).read_bytes(receipt_name(0)).decode().split('"sha256": "')[1][:64]
    tokens = first.shards[0].tokens
    planned = [PlannedShard(number=number, sentences=_SHARD_SENTENCES, tokens=tokens) for number in range(shards)]
    plan = Plan(settings=first.settings, shards=tuple(planned), counts=first.counts)
    size = file.stat().st_size
    for shard in planned[1:]:
        os.link(file, folder / shard_name(shard.number, sha256, "hdf5"))
        receipt = make_receipt(plan, shard, sha256=sha256, size=size)
        (folder / receipt_name(shard.number)).write_bytes(seal(asdict(receipt)))
    before = time.monotonic()
    manifest = commit(Folder(folder), plan)
    return f"committed {len(manifest.shards):,} receipts in {time.monotonic() - before:.1f} s"


@click.command()
@click.option("--sentences", default=10_000_000, show_default=True)
@click.option("--shards", default=20_000, show_default=True)
def main(sentences: int, shards: int) -> None:
    """Runs both parts and prints what they took."""
    for work, size in ((plan_sentences, sentences), (commit_shards, shards)):
        if os.fork() == 0:
            with tempfile.TemporaryDirectory() as folder:
                done = work(Path(folder), size)
            used = resource.getrusage(resource.RUSAGE_SELF)
            click.echo(f"{done}, {used.ru_utime + used.ru_stime:.1f} s of processor, {used.ru_maxrss / 1000:.0f} MB")
            os._exit(0)
        _, status = os.wait()
        if status:
            raise click.ClickException(f"{work.__name__} ended with {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
