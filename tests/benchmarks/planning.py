"""Plans a corpus and reads the plan again: speed in text and in processor time, and what each sentence takes of memory.

    python tests/benchmarks/planning.py [CORPUS] [--sentences N] [--glob GLOB]

Without CORPUS it plans N generated sentences of three words with given ids, and a tenth of them, in processes of their
own; the difference of their peaks is what the sentences take.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import click

from pipeline.config import CorpusConfig, DumpConfig
from pipeline.encoding import EncoderSpec
from pipeline.inputs import list_inputs
from pipeline.planning import make_plan
from pipeline.storage import Folder
from support.memory import peak_bytes


def measure(corpus: str, glob: str) -> None:
    """Prints the figures of one corpus, planned by this process."""
    config = DumpConfig(corpus=CorpusConfig(glob=glob))
    spec = EncoderSpec(family="none", columns=(), model_digest="")
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(f"{place}/out")
        files = list_inputs([corpus], config.corpus)
        wall, processor = time.monotonic(), time.process_time()
        plan = make_plan(files, folder, config=config, spec=spec, columns=())
        wall, processor = time.monotonic() - wall, time.process_time() - processor
        again = time.monotonic()
        make_plan(files, folder, config=config, spec=spec, columns=())
        again = time.monotonic() - again
    # Tokens and texts are about the same bytes, ids and sources stand beside them.
    text = plan.counts["string_bytes"] / 2e6
    peak = peak_bytes() / 1e6
    click.echo(
        f"{plan.sentences:,} sentences, {plan.tokens:,} tokens, {len(plan.shards):,} shards: {wall:.1f} s, of the "
        f"processor {processor:.1f} s ({text / processor:.1f} MB of text/s, "
        f"{processor / plan.sentences * 1e6:.1f} us/sentence); again {again:.2f} s; peak {peak:.1f} MB"
    )


def generated(sentences: int) -> float:
    """The peak in MB of a process that plans so many sentences; prints its other figures."""
    with tempfile.TemporaryDirectory() as place:
        with Path(place, "corpus.tsv").open("w") as out:
            for number in range(sentences):
                out.write(f"sentence-{number}\tone more line\n")
        done = subprocess.run([sys.executable, __file__, place], capture_output=True, text=True, check=True)
    click.echo(done.stdout.strip())
    found = re.search(r"peak ([\d.]+) MB", done.stdout)
    return float(found.group(1)) if found else float("nan")


@click.command(help=__doc__)
@click.argument("corpus", required=False)
@click.option("--sentences", default=1_000_000, show_default=True)
@click.option("--glob", default=CorpusConfig.glob, show_default=True)
def main(corpus: str | None, sentences: int, glob: str) -> None:
    """See the top of this file."""
    if corpus is not None:
        measure(corpus, glob)
        return
    few, many = generated(sentences // 10), generated(sentences)
    click.echo(f"{(many - few) * 2**20 / (sentences * 0.9):.1f} bytes/sentence")


if __name__ == "__main__":
    main()
