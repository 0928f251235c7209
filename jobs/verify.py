"""`elmo verify`: re-reads a whole store and says what is not as the manifest promises."""

import click

from jobs.progress import readable_bytes
from pipeline.errors import DamageError
from pipeline.storage import Folder
from pipeline.verification import verify as verify_store


@click.command()
@click.argument("store")
def verify(store: str) -> None:
    """Re-hash every file of STORE and check counts, ids, shapes and numbers against its manifest."""
    report = verify_store(Folder(store))
    for problem in report.problems:
        click.echo(problem)
    if not report.ok:
        raise DamageError(f"{store}: {len(report.problems)} problems, each named above")
    click.echo(
        f"{store}: sound; {report.shards:,} shards, {report.sentences:,} sentences ({report.failed:,} failed), "
        f"{report.tokens:,} tokens, {readable_bytes(report.bytes)} read"
    )
