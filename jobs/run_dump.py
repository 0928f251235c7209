"""The dump job: plan, encode on a runner, commit. The command line and the API call the same function."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.progress import readable_bytes, shown
from jobs.runners import RESTARTING, RunnerConfig, beam_options, beam_pipeline, run
from jobs.stopping import interruptible
from pipeline.config import DumpConfig
from pipeline.derivations import select_columns
from pipeline.encoding import EncoderFactory
from pipeline.errors import StorageError
from pipeline.forecast import Forecast
from pipeline.inputs import list_inputs
from pipeline.manifest import Manifest
from pipeline.planning import Plan, check_output, make_plan, restore_tasks
from pipeline.receipts import valid_receipt
from pipeline.schema import FAILURES, INDEX, MANIFEST, PLAN, RECEIPTS, SHARDS, TASKS, Column, receipt_name
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
    beam_options(options.runner)  # refuses before anything is touched
    spec = encoder.describe()
    selection = select_columns(spec.columns, config.store.layers, pool=config.store.pool)
    folder = Folder(output)
    check_output(folder)
    files = list_inputs(inputs, config.corpus, output=folder)
    encode = config.encode
    if options.runner.runner == "local":
        encoder.check(device=encode.device, precision=encode.precision, carried_state=encode.carried_state)
    resumable = interruptible(f"run the same command again to go on with {folder.url}")
    with resumable, folder.lock(take_over=options.take_over):
        folder.remove_stale()
        if options.fresh:
            remove_store(folder)
        plan = make_plan(files, folder, config=config, spec=spec, columns=selection.stored)
        if folder.exists(MANIFEST):
            folder.remove_all(TASKS)  # of a job that died after its last but one step
            return Manifest.read(folder)
        todo = unfinished(folder, plan)
        if not options.force:
            _check_space(folder, plan, todo, config)
        restore_tasks(files, folder, plan, config=config, shards=todo)
        # Beam is there, or there would be no pipeline; only now can what is built on it be imported.
        from pipeline.transforms import DumpJob, encode_and_commit  # noqa: PLC0415

        job = DumpJob(
            output=output,
            encoder=encoder,
            selection=selection,
            encode=encode,
            store=config.store,
            max_failures=options.max_failures,
            cpu_spare=options.cpu_spare,
            worker_restarts=options.runner.runner in RESTARTING,
        )
        pipeline = beam_pipeline(options.runner, shards=len(todo))
        encode_and_commit(pipeline, job, todo)
        with shown(folder, plan):
            run(pipeline, options.runner)
        folder.remove_stale()  # of workers that died in between
        return Manifest.read(folder)


def unfinished(folder: Folder, plan: Plan) -> list[int]:
    """The numbers of the shards that have no valid receipt."""
    # One listing first: on an object store each question about a single file takes a request.
    present = set(folder.list(RECEIPTS))
    return [
        shard.number
        for shard in plan.shards
        if receipt_name(shard.number) not in present or valid_receipt(folder, plan, shard) is None
    ]


def remove_store(folder: Folder) -> None:
    """Removes what dumps write into a folder, the manifest first, and nothing else."""
    for name in (MANIFEST, INDEX, PLAN):
        folder.remove(name)
    for name in (RECEIPTS, SHARDS, FAILURES, TASKS):
        folder.remove_all(name)


def _check_space(folder: Folder, plan: Plan, todo: Sequence[int], config: DumpConfig) -> None:
    columns = [Column.from_json(column) for column in plan.settings["columns"]]
    shards = [plan.shards[number] for number in todo]
    needed = Forecast.of(shards, plan.counts, config=config.store, columns=columns).store_bytes
    free = folder.free_bytes()
    if free is not None and needed > free:
        raise StorageError(
            f"{folder.url}: {readable_bytes(needed)} are needed and {readable_bytes(free)} are free; take another "
            "disk, fewer layers or float16, or go on with --force"
        )
