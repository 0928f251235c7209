"""A plan of many sentences and a commit of many shards: seconds and memory.

    python tests/benchmarks/scale.py [--sentences 10000000] [--shards 20000]

Each part runs in a process of its own.
"""

import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.scale import measure


@click.command()
@click.option("--sentences", default=10_000_000, show_default=True)
@click.option("--shards", default=20_000, show_default=True)
def main(sentences: int, shards: int) -> None:
    """Runs both parts and prints what they took."""
    for step, size in (("plan", sentences), ("commit", shards)):
        took = measure(step, size)
        click.echo(
            f"{step}: {took.sentences:,} sentences in {took.shards:,} shards, {took.seconds:.1f} s, "
            f"{took.processor:.1f} s of processor, at most {took.peak / 1e6:.0f} MB"
        )


if __name__ == "__main__":
    main()
