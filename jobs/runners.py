"""Where a dump runs: runner settings to an explicit Beam runner and explicit options, and errors back to ours."""

import importlib
import logging
import os
import re
import threading
from dataclasses import dataclass
from typing import Any, Literal

from jobs.dataflow.checks import check_dataflow
from jobs.dataflow.gpus import GpuConfig
from jobs.stopping import Interrupted
from pipeline import errors, stopping
from pipeline.config import Device, check_choice
from pipeline.errors import ConfigError, PipelineError
from pipeline.storage import Folder

Runner = Literal["local", "portable", "flink", "spark", "dask", "dataflow"]

# Named outright: Beam's default local runner first tries to download another one.
_CLASSES: dict[str, str] = {
    "local": "apache_beam.runners.portability.fn_api_runner.FnApiRunner",
    "portable": "apache_beam.runners.portability.portable_runner.PortableRunner",
    "flink": "apache_beam.runners.portability.flink_runner.FlinkRunner",
    "spark": "apache_beam.runners.portability.spark_runner.SparkRunner",
    "dask": "apache_beam.runners.dask.dask_runner.DaskRunner",
    "dataflow": "apache_beam.runners.dataflow.dataflow_runner.DataflowRunner",
}
# How each is told the number of workers; on Dask the cluster has as many as it has.
_WORKERS: dict[str, tuple[str, ...]] = {
    "local": ("--direct_num_workers",),
    "portable": ("--sdk_worker_parallelism",),
    "flink": ("--parallelism",),
    "spark": (),
    "dask": (),
    "dataflow": ("--num_workers", "--max_num_workers"),
}
# Without these a runner would look in places that no user named.
_REQUIRED: dict[str, tuple[str, ...]] = {
    "portable": ("job_endpoint",),
    "flink": ("flink_master",),
    "spark": ("spark_master_url",),
    "dask": ("dask_client_address",),
    "dataflow": ("project", "region", "temp_location"),
}
# These start a worker anew when its process ends.
RESTARTING = ("flink", "spark", "dask", "dataflow")
_EXTRAS = {"dask": "dask", "dataflow": "dataflow"}

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_UNWIND_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class RunnerConfig:
    """Where the work is done; nothing of it changes what is written.

    Attributes:
        runner: `local` is this machine.
        workers: Of `local`, processes, each with a model of its own; one process uses all cores through the model's
            threads. None leaves it to the runner, which for `local` is one.
        options: Further options of Beam, such as `--job_endpoint=localhost:8099`; they win over those made here.
        gpu: Of each worker of Dataflow.
    """

    runner: Runner = "local"
    workers: int | None = None
    options: tuple[str, ...] = ()
    gpu: GpuConfig | None = None

    def __post_init__(self) -> None:
        check_choice("runner", self.runner, Runner)
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"workers {self.workers} is below 1")
        if self.workers is not None and not _WORKERS[self.runner]:
            raise ConfigError(f"runner {self.runner} takes no number of workers: its cluster has as many as it has")
        if self.gpu is not None and self.runner != "dataflow":
            raise ConfigError(f"--gpu is for runner dataflow; runner {self.runner} computes on what its machines have")


def beam_options(config: RunnerConfig) -> Any:
    """The Beam options of a runner, checked.

    Raises:
        ConfigError: Beam or a part of it is not installed, an option is unknown, or one is missing.
    """
    _runner_class(config.runner)
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415 - only a run needs Beam

    flags = list(config.options)
    if config.runner == "local":
        workers = config.workers or 1
        flags = [
            f"--direct_running_mode={'in_memory' if workers == 1 else 'multi_processing'}",
            f"--direct_num_workers={workers}",
            *flags,
        ]
    elif config.workers is not None:
        flags = [*(f"{name}={config.workers}" for name in _WORKERS[config.runner]), *flags]
    if config.gpu is not None:
        flags = [*config.gpu.flags, *flags]
    # An explicit list, since Beam would otherwise read this process's command line.
    options = PipelineOptions(flags)
    known = options.get_all_options()
    unknown = options.get_all_options(retain_unknown_options=True).keys() - known.keys()
    # A job service may know options that Beam's Python does not.
    if unknown and config.runner not in ("portable", "flink", "spark"):
        raise ConfigError(f"Beam has no option --{min(unknown)} for runner {config.runner}")
    for name in _REQUIRED.get(config.runner, ()):
        # As given, since Beam's own defaults start something else or look for it elsewhere.
        if not any(flag.partition("=")[0] == f"--{name}" for flag in config.options):
            raise ConfigError(f"runner {config.runner} needs --{name}; give it after --, as in: -- --{name}=...")
    return options


def check_runner(config: RunnerConfig, *, device: Device, output: Folder) -> None:
    """Refuses what cannot work before anything is touched.

    Raises:
        ConfigError: As `beam_options`, or as `check_dataflow`.
    """
    options = beam_options(config)
    if config.runner == "dataflow":
        check_dataflow(options.get_all_options(), gpu=config.gpu, device=device, output=output)


def beam_pipeline(config: RunnerConfig, *, shards: int) -> Any:
    """An empty Beam pipeline bound to the runner, for a number of shards.

    Raises:
        ConfigError: As `beam_options`.
    """
    options = beam_options(config)
    import apache_beam as beam  # noqa: PLC0415 - only a command that runs a pipeline needs Beam

    if config.runner == "local":
        from jobs.local_workers import begin_job  # noqa: PLC0415

        begin_job()
    if config.runner == "dask":
        from apache_beam.runners.dask.dask_runner import DaskOptions  # noqa: PLC0415

        dask = options.view_as(DaskOptions)
        # Dask would put many shards into one task, and stop at a hundred tasks.
        dask.npartitions = dask.npartitions or max(1, shards)
    return beam.Pipeline(runner=_runner_class(config.runner)(), options=options)


def run(pipeline: Any, config: RunnerConfig) -> None:
    """Runs a pipeline to its end, which Ctrl-C and SIGTERM bring about at once.

    Raises:
        PipelineError: What a worker raised; runners hand it on as text, out of which the error is made again.
        ConfigError: Dask is asked to run anything but a dump.
        Interrupted: The process was told to stop; the workers have been told as well.
    """
    if config.runner == "dask":
        _refuse_other_graphs(pipeline)
    outcome = _Outcome()
    # Apart from the main thread, which alone hears signals and does not while it waits inside Beam.
    thread = threading.Thread(target=outcome.run, args=(pipeline,), name="pipeline", daemon=True)
    hook, threading.excepthook = threading.excepthook, _log_thread_error
    try:
        thread.start()
        while not outcome.ended.wait(_POLL_SECONDS):
            pass
    except Interrupted:
        outcome.stop(config)
        outcome.ended.wait(_UNWIND_SECONDS)
        raise
    finally:
        threading.excepthook = hook
        stopping.clear()
    if outcome.error is not None:
        raised = _worker_error(str(outcome.error)) or _lost_worker(config)
        if raised is None:
            raise outcome.error
        raise raised from outcome.error


def _refuse_other_graphs(pipeline: Any) -> None:
    steps = [part.full_label for root in pipeline.transforms_stack[:1] for part in root.parts]
    if steps != ["Shards", "EncodeShards", "CommitStore"]:
        raise ConfigError(
            f"Dask's runner loses data in silence in many a graph, so it is used for dumps alone, not for {steps}"
        )


def submit(pipeline: Any) -> str:
    """Hands a pipeline to a runner that goes on without this process; the id of the job."""
    result = pipeline.run()
    # With a template location the job is written there, and its launcher submits it.
    return str(result.job_id()) if result.has_job else "submitted by the launcher of its template"


class _Outcome:
    """The result of a pipeline that runs in another thread, and the error it ended with."""

    def __init__(self) -> None:
        # Not the end of the thread: in Python 3.11 a join that a signal interrupts takes a thread for ended.
        self.ended = threading.Event()
        self.result: Any = None
        self.error: Exception | None = None

    def run(self, pipeline: Any) -> None:
        try:
            self.result = pipeline.run()
            state = self.result.wait_until_finish()
            if state != "DONE":
                raise PipelineError(f"the runner ended the job with the state {state}")
        except Exception as error:
            self.error = error
        finally:
            # Dask's runner leaves its connection open.
            client = getattr(self.result, "client", None)
            if client is not None:
                client.close()
            self.ended.set()

    def stop(self, config: RunnerConfig) -> None:
        stopping.request_stop()
        if config.runner == "local":
            from jobs.local_workers import kill_workers  # noqa: PLC0415

            kill_workers()
        elif self.result is not None:
            self.result.cancel()


def _log_thread_error(raised: threading.ExceptHookArgs) -> None:
    # Threads of Beam that talk to a worker end with a traceback when it goes; why it went is told in one line.
    _log.info("thread %s ended: %r", raised.thread, raised.exc_value)


def _runner_class(runner: Runner) -> Any:
    module, name = _CLASSES[runner].rsplit(".", 1)
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        extra = _EXTRAS.get(runner, "beam")
        raise ConfigError(f"runner {runner} cannot be had ({error}): pip install 'elmo-features[{extra}]'") from None


def _worker_error(text: str) -> PipelineError | None:
    found = re.findall(r"^pipeline\.errors\.(\w+): (.*)$", text, flags=re.MULTILINE)
    if not found:
        return None
    name, message = found[-1]
    return getattr(errors, name)(_without_step(message))  # type: ignore[no-any-return]


def _lost_worker(config: RunnerConfig) -> PipelineError | None:
    if config.runner != "local":
        return None
    from jobs.local_workers import lost_worker  # noqa: PLC0415

    return lost_worker()


def _without_step(message: str) -> str:
    """The message without the name of the step that Beam adds."""
    return message.split(" [while running", maxsplit=1)[0]


def threads_per_worker(config: RunnerConfig) -> int | None:
    """Cores for each local process, at least one; None for all cores of whatever machine a remote worker is on."""
    if config.runner != "local":
        return None
    return max(1, (os.cpu_count() or 1) // (config.workers or 1))
