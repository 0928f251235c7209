"""The Beam side of a dump: wiring alone. Shard numbers travel, features never do.

Create(shard numbers) | EncodeShards | CommitStore
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.utils.shared import Shared

from pipeline.commit import commit
from pipeline.config import EncodeConfig, StoreConfig
from pipeline.derivations import Selection
from pipeline.encode_shard import encode_shard
from pipeline.encoding import EncoderFactory
from pipeline.errors import ConfigError, DeviceLostError
from pipeline.guarding import GuardedEncoder
from pipeline.planning import Plan
from pipeline.schema import LOCKS
from pipeline.storage import Folder

EXIT_DEVICE_LOST = 70

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class DumpJob:
    """All that a worker needs to know; small, and picklable with its encoder factory.

    Attributes:
        output: URL of the store; its `plan.json` says what there is to do.
        encoder: Loaded once per process.
        selection: What is computed and stored of the encoder's columns.
        encode: How sentences are grouped and computed.
        store: What is written.
        max_failures: Failed sentences that one worker process accepts before it stops the job.
        cpu_spare: Compute single sentences that do not fit the device on the CPU.
        worker_restarts: A worker process that ends is started anew by the runner, with a device in order.
        releases_claim: The commit gives the output back, since the process that claimed it has left.
        hints: Resource hints for the one step that computes.
    """

    output: str
    encoder: EncoderFactory
    selection: Selection
    encode: EncodeConfig
    store: StoreConfig
    max_failures: int
    cpu_spare: bool = False
    worker_restarts: bool = False
    releases_claim: bool = False
    hints: Mapping[str, str] = field(default_factory=dict)


class EncodeShards(beam.PTransform):  # type: ignore[misc]
    """Shard numbers in, the numbers of the shards that stand complete out; everything else goes to the store."""

    def __init__(self, job: DumpJob) -> None:
        super().__init__()
        self._job = job

    def expand(self, numbers: beam.PCollection[int]) -> beam.PCollection[int]:
        """Spreads the shards over the workers and encodes each in one call."""
        encode = beam.ParDo(_EncodeShard(self._job))
        if self._job.hints:
            encode = encode.with_resource_hints(**self._job.hints)
        return (
            numbers
            | "Spread" >> beam.Reshuffle()  # int
            | "Encode" >> encode  # int
        )


class CommitStore(beam.PTransform):  # type: ignore[misc]
    """The numbers of complete shards in, the number of committed sentences out, once all shards are there."""

    def __init__(self, job: DumpJob) -> None:
        super().__init__()
        self._job = job

    def expand(self, numbers: beam.PCollection[int]) -> beam.PCollection[int]:
        """Waits for all shards, then writes index and manifest."""
        return (
            numbers
            | "Await all" >> beam.combiners.ToList()  # list[int]
            | "Commit" >> beam.Map(_commit, output=self._job.output, release=self._job.releases_claim)  # int
        )


def encode_and_commit(pipeline: beam.Pipeline, job: DumpJob, numbers: Sequence[int]) -> None:
    """Adds the whole job to a pipeline: these shards are encoded, then all are committed."""
    pipeline | "Shards" >> beam.Create(numbers) | EncodeShards(job) | CommitStore(job)


class _EncodeShard(beam.DoFn):  # type: ignore[misc]
    def __init__(self, job: DumpJob) -> None:
        super().__init__()
        self._job = job
        self._shared = Shared()
        self._folder: Folder
        self._plan: Plan
        self._encoder: GuardedEncoder

    def setup(self) -> None:
        self._folder = Folder(self._job.output)
        self._plan = Plan.read(self._folder)
        # The tag keeps a second job in the same process from being handed this one's model.
        self._encoder = self._shared.acquire(self._load, tag=f"{self._plan.fingerprint} {self._job.encode.device}")

    def _load(self) -> GuardedEncoder:
        encode = self._job.encode
        planned, found = self._plan.settings["encoder"]["model_digest"], self._job.encoder.describe().model_digest
        if found != planned:
            raise ConfigError(f"the model on this worker has the digest {found}, the plan was made for {planned}")
        load = partial(
            self._job.encoder.load,
            columns=[column.name for column in self._job.selection.raw],
            precision=encode.precision,
            carried_state=encode.carried_state,
        )
        return GuardedEncoder(
            load(device=encode.device),
            max_failures=self._job.max_failures,
            carried_state=encode.carried_state,
            load_spare=partial(load, device="cpu") if self._job.cpu_spare else None,
        )

    def process(self, number: int, *args: Any, **kwargs: Any) -> Iterator[int]:
        try:
            receipt = encode_shard(
                self._folder,
                self._plan,
                self._plan.shards[number],
                self._encoder,
                selection=self._job.selection,
                encode=self._job.encode,
                store=self._job.store,
            )
        except DeviceLostError as error:
            if not self._job.worker_restarts:
                raise
            # In this process everything that follows would fail as well, and take its retries with it.
            _log.critical("%s; this worker ends, a new one goes on", error)
            logging.shutdown()
            os._exit(EXIT_DEVICE_LOST)
        Metrics.counter("dump", "sentences").inc(receipt.sentences)
        Metrics.counter("dump", "tokens").inc(receipt.tokens)
        Metrics.counter("dump", "bytes").inc(receipt.bytes)
        Metrics.counter("dump", "failed").inc(receipt.failed)
        Metrics.distribution("dump", "shard_milliseconds").update(int(receipt.seconds * 1000))
        yield number


def _commit(numbers: list[int], *, output: str, release: bool) -> int:
    folder = Folder(output)
    sentences = commit(folder, Plan.read(folder)).sentences
    if release:
        folder.remove_all(LOCKS)
    return sentences
