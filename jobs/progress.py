"""How far a dump is, told from its receipts, so that it is true on every runner and after a crash."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from pipeline.errors import DamageError, PipelineError
from pipeline.parallel import for_each
from pipeline.planning import Plan
from pipeline.receipts import Receipt, read_receipt
from pipeline.schema import RECEIPTS, receipt_name
from pipeline.storage import Folder

POLL_SECONDS = 0.5
# Each look at an object store takes requests.
REMOTE_POLL_SECONDS = 10.0
HEARTBEAT_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Done:
    """What the receipts of a job add up to.

    `seconds` is the time in which at least one worker was at work, over all runs of the job.
    """

    seconds: float
    shards: int
    sentences: int
    tokens: int
    bytes: int
    failed: int


class Tally:
    """The running sum over the receipts of a plan; each is read once, however often one asks."""

    def __init__(self, folder: Folder, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._receipts: dict[int, Receipt] = {}

    def count(self) -> Done:
        """What stands complete now."""
        present = set(self._folder.list(RECEIPTS))
        unread = [shard.number for shard in self._plan.shards if shard.number not in self._receipts]
        new = [number for number in unread if receipt_name(number) in present]
        for receipt in for_each(self._folder, self._read, new):
            if receipt is not None and receipt.fingerprint == self._plan.fingerprint:
                self._receipts[receipt.shard] = receipt
        receipts = self._receipts.values()
        return Done(
            seconds=_covered([(_end(receipt) - receipt.seconds, _end(receipt)) for receipt in receipts]),
            shards=len(receipts),
            sentences=sum(receipt.sentences for receipt in receipts),
            tokens=sum(receipt.tokens for receipt in receipts),
            bytes=sum(receipt.bytes for receipt in receipts),
            failed=sum(receipt.failed for receipt in receipts),
        )

    def _read(self, shard: int) -> Receipt | None:
        try:
            return read_receipt(self._folder, shard)
        except DamageError:
            return None  # as for the dump, which computes such a shard again


def _end(receipt: Receipt) -> float:
    return datetime.fromisoformat(receipt.finished).timestamp()


def _covered(spans: list[tuple[float, float]]) -> float:
    """The length of the union of some spans of time."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def readable_bytes(number: float) -> str:
    """A size in decimal units, as disks are sold: `12.3 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


@contextmanager
def shown(folder: Folder, plan: Plan) -> Iterator[None]:
    """Shows progress on standard error while the block runs: a bar on a terminal, else a line now and then."""
    stop = threading.Event()
    bar = partial(_bar, seconds=POLL_SECONDS if folder.is_local else REMOTE_POLL_SECONDS)
    show = bar if sys.stderr.isatty() else _heartbeat
    thread = threading.Thread(target=show, args=(Tally(folder, plan), plan, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _bar(tally: Tally, plan: Plan, stop: threading.Event, *, seconds: float) -> None:
    start, started = tally.count(), time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task(f"{len(plan.shards)} shards", total=plan.tokens, rate="")
        now, last = start, False
        while not last:
            last = stop.wait(seconds)
            now = _latest(tally, otherwise=now)
            rate = (now.tokens - start.tokens) / (time.monotonic() - started)
            bar.update(task, completed=now.tokens, rate=f"{rate:,.0f} tokens/s")


def _heartbeat(tally: Tally, plan: Plan, stop: threading.Event) -> None:
    start, started = tally.count(), time.monotonic()
    now = start
    while not stop.wait(HEARTBEAT_SECONDS):
        now = _latest(tally, otherwise=now)
        rate = (now.tokens - start.tokens) / (time.monotonic() - started)
        click.echo(progress_line(plan, now, tokens_per_second=rate), err=True)


def progress_line(plan: Plan, now: Done, *, tokens_per_second: float) -> str:
    """One line: shards and tokens done, failures, and where there is one, the speed and the time left."""
    line = (
        f"{now.shards}/{len(plan.shards)} shards, {now.tokens:,}/{plan.tokens:,} tokens, "
        f"{readable_bytes(now.bytes)}, {now.failed:,} failed"
    )
    if tokens_per_second > 0:
        minutes = (plan.tokens - now.tokens) / tokens_per_second / 60
        line += f", {tokens_per_second:,.0f} tokens/s, {minutes:.1f} min left"
    return line


def _latest(tally: Tally, *, otherwise: Done) -> Done:
    # A passing fault of the store must not end a job that is only being watched.
    try:
        return tally.count()
    except PipelineError:
        return otherwise
