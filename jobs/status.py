"""`elmo status`: how far a dump is, running or dead, from its receipts."""

import click

from jobs.progress import Tally, progress_line
from pipeline.errors import StoreError
from pipeline.planning import Plan
from pipeline.schema import MANIFEST, PLAN
from pipeline.storage import Folder


@click.command()
@click.argument("output")
def status(output: str) -> None:
    """Show how much of the store OUTPUT is done, how fast it went, and the time left."""
    folder = Folder(output)
    if not folder.exists(PLAN):
        raise StoreError(f"{output}: no feature store here, and no dump that was begun: it has no {PLAN}")
    plan = Plan.read(folder)
    now = Tally(folder, plan).count()
    state = "complete" if folder.exists(MANIFEST) else "not complete"
    speed = now.tokens / now.seconds if now.seconds > 0 else 0.0
    click.echo(f"{output}: {state}, {progress_line(plan, now, tokens_per_second=speed)}")
