"""The dump job: plan, encode on a runner, commit. The command line and the API call the same function."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jobs.progress import readable_bytes, shown
from jobs.runners import RESTARTING, RunnerConfig, beam_pipeline, check_runner, run, submit
from jobs.stopping import interruptible
from pipeline.claims import Claim
from pipeline.config import DumpConfig
from pipeline.derivations import Selection, select_columns
from pipeline.encoding import EncoderFactory, EncoderSpec
from pipeline.errors import ConfigError, StorageError
from pipeline.forecast import forecast
from pipeline.formats.streams import InputFile
from pipeline.inputs import list_inputs
from pipeline.manifest import Manifest
from pipeline.parallel import for_each
from pipeline.planning import Plan, check_output, make_plan, restore_tasks
from pipeline.receipts import valid_receipt
from pipeline.schema import FAILURES, INDEX, MANIFEST, PLAN, RECEIPTS, SHARDS, TASKS, receipt_name
from pipeline.storage import Folder


@dataclass(frozen=True, kw_only=True)
class DumpOptions:
    """How a dump is run; nothing of it changes what is written.

    Attributes:
        runner: Where the work is done.
        fresh: Remove what an earlier dump left in the output first.
        force: Go on although the disk has too little room.
        max_failures: Failed sentences that one worker accepts before it stops the job.
        cpu_spare: Compute single sentences that do not fit the device on the CPU; they are counted.
        take_over: Go on with the output of a job that is known to be dead, on an object store.
    """

    runner: RunnerConfig = field(default_factory=RunnerConfig)
    fresh: bool = False
    force: bool = False
    max_failures: int = 100
    cpu_spare: bool = False
    take_over: bool = False


def run_dump(
    inputs: Sequence[str],
    output: str,
    *,
    encoder: EncoderFactory,
    config: DumpConfig,
    options: DumpOptions | None = None,
) -> Manifest:
    """Plans, encodes and commits; what stands complete from an earlier run is kept.

    Args:
        inputs: Files, directories, patterns, or `-` for standard input.
        output: Where the store is, or will be.
        encoder: The model.
        config: What is read, computed and written.
        options: How it is run; by default in one process on this machine.

    Returns:
        The manifest of the complete store.

    Raises:
        PipelineError: As the parts of the pipeline say; the output can be resumed.
    """
    options = options or DumpOptions()
    job = _Dump(inputs, output, encoder=encoder, config=config, options=options)
    with job.begun() as (plan, pipeline, _):
        if pipeline is not None:
            with shown(job.folder, plan):
                run(pipeline, options.runner)
            job.folder.remove_stale()  # of workers that died in between
        return Manifest.read(job.folder)


def submit_dump(
    inputs: Sequence[str], output: str, *, encoder: EncoderFactory, config: DumpConfig, options: DumpOptions
) -> str | None:
    """Plans, hands the rest to Dataflow and leaves.

    The job holds the output from then on, and gives it back with its last step. If it fails, the same command goes on
    with `take_over`.

    Returns:
        The id of the job; None where the store is complete already.

    Raises:
        PipelineError: As `run_dump`.
    """
    if options.runner.runner != "dataflow":
        raise ConfigError(f"only dataflow goes on by itself; run runner {options.runner.runner} by elmo dump")
    job = _Dump(inputs, output, encoder=encoder, config=config, options=options, leaves=True)
    with job.begun() as (_, pipeline, claim):
        if pipeline is None or claim is None:
            return None
        submitted = submit(pipeline)
        claim.leave_to(submitted)
        return submitted


def dataflow_request(
    inputs: Sequence[str], output: str, *, encoder: EncoderFactory, config: DumpConfig, options: DumpOptions
) -> str:
    """The request that `submit_dump` would send, as JSON; writes and sends nothing."""
    job = _Dump(inputs, output, encoder=encoder, config=config, options=options, leaves=True)
    shards = forecast(job.files, config=config, columns=job.selection.stored).shards
    pipeline = job.pipeline(range(shards))
    from jobs.dataflow.request import request_json  # noqa: PLC0415 - imports Beam

    return request_json(pipeline)


def select_input_and_output(
    inputs: Sequence[str], folder: Folder, spec: EncoderSpec, config: DumpConfig
) -> tuple[list[InputFile], Selection]:
    """The files that a dump reads, in order, and the columns that it computes and stores.

    Raises:
        ConfigError: The encoder has no such columns.
        CorpusError: There are no such inputs.
    """
    spans = bool(config.corpus.spans_column)
    selection = select_columns(spec.columns, config.store.layers, pool=config.store.pool, spans=spans)
    return list_inputs(inputs, config.corpus, output=folder), selection


class _Dump:
    """A dump whose settings and inputs are checked; nothing is written yet."""

    def __init__(
        self,
        inputs: Sequence[str],
        output: str,
        *,
        encoder: EncoderFactory,
        config: DumpConfig,
        options: DumpOptions,
        leaves: bool = False,
    ) -> None:
        self.folder = Folder(output)
        self._encoder = encoder
        self._config = config
        self._options = options
        self._leaves = leaves
        encode = config.encode
        check_runner(options.runner, device=encode.device, output=self.folder)
        self._spec = encoder.describe()
        check_output(self.folder)
        self.files, self.selection = select_input_and_output(inputs, self.folder, self._spec, config)
        if options.runner.runner == "local":
            encoder.check(device=encode.device, precision=encode.precision, carried_state=encode.carried_state)

    @contextmanager
    def begun(self) -> Iterator[tuple[Plan, Any, Claim | None]]:
        """The plan, and the pipeline that does what is left of it, or None if nothing is; under the output's lock."""
        folder, config, options = self.folder, self._config, self._options
        resumable = interruptible(f"run the same command again to go on with {folder.url}")
        with resumable, folder.lock(take_over=options.take_over) as claim:
            folder.remove_stale()
            if options.fresh:
                remove_store(folder)
            plan = make_plan(self.files, folder, config=config, spec=self._spec, columns=self.selection.stored)
            if folder.exists(MANIFEST):
                folder.remove_all(TASKS)  # of a job that died after its last but one step
                yield plan, None, claim
                return
            todo = unfinished(folder, plan)
            if not options.force:
                _check_space(folder, plan, todo)
            restore_tasks(self.files, folder, plan, config=config, shards=todo)
            yield plan, self.pipeline(todo), claim

    def pipeline(self, shards: Sequence[int]) -> Any:
        """The Beam pipeline that encodes these shards and commits all."""
        options = self._options
        pipeline = beam_pipeline(options.runner, shards=len(shards))
        # Beam is there, or there would be no pipeline; only now can what is built on it be imported.
        from pipeline.transforms import DumpJob, encode_and_commit  # noqa: PLC0415

        job = DumpJob(
            output=self.folder.url,
            encoder=self._encoder,
            selection=self.selection,
            encode=self._config.encode,
            store=self._config.store,
            max_failures=options.max_failures,
            cpu_spare=options.cpu_spare,
            worker_restarts=options.runner.runner in RESTARTING,
            releases_claim=self._leaves,
            hints=options.runner.gpu.hints if options.runner.gpu else {},
        )
        encode_and_commit(pipeline, job, shards)
        return pipeline


def unfinished(folder: Folder, plan: Plan) -> list[int]:
    """The numbers of the shards that have no valid receipt."""
    # One listing first: on an object store each question about a single file takes a request.
    present = set(folder.list(RECEIPTS))
    begun = [shard for shard in plan.shards if receipt_name(shard.number) in present]
    receipts = for_each(folder, partial(valid_receipt, folder, plan), begun)
    done = {receipt.shard for receipt in receipts if receipt is not None}
    return [shard.number for shard in plan.shards if shard.number not in done]


def remove_store(folder: Folder) -> None:
    """Removes what dumps write into a folder, the manifest first, and nothing else."""
    for name in (MANIFEST, INDEX, PLAN):
        folder.remove(name)
    for name in (RECEIPTS, SHARDS, FAILURES, TASKS):
        folder.remove_all(name)


def _check_space(folder: Folder, plan: Plan, todo: Sequence[int]) -> None:
    needed = plan.bytes_of(todo)
    free = folder.free_bytes()
    if free is not None and needed > free:
        raise StorageError(
            f"{folder.url}: {readable_bytes(needed)} are needed and {readable_bytes(free)} are free; take another "
            "disk, fewer layers or float16, or go on with --force"
        )
