"""Where a dump runs: runner settings to an explicit Beam runner and explicit options, and errors back to ours."""

import os
import re
from dataclasses import dataclass
from typing import Any, Literal

from pipeline import errors
from pipeline.config import check_choice
from pipeline.errors import ConfigError, PipelineError

Runner = Literal["local"]


@dataclass(frozen=True, kw_only=True)
class RunnerConfig:
    """Where the work is done; nothing of it changes what is written.

    Attributes:
        runner: `local` runs on this machine.
        workers: Processes, each with a model of its own; one process uses all cores through the model's threads.
    """

    runner: Runner = "local"
    workers: int = 1

    def __post_init__(self) -> None:
        check_choice("runner", self.runner, Runner)
        if self.workers < 1:
            raise ConfigError(f"workers {self.workers} is below 1")


def beam_pipeline(config: RunnerConfig) -> Any:
    """An empty Beam pipeline bound to the runner.

    Raises:
        ConfigError: Beam is not installed.
    """
    try:
        import apache_beam as beam  # noqa: PLC0415 - only a command that runs a pipeline needs Beam
        from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(f"this needs Apache Beam ({error}); install it: pip install 'elmo-features[beam]'") from None
    # Named outright: Beam's default local runner first tries to download another one.
    mode = "in_memory" if config.workers == 1 else "multi_processing"
    # An explicit list, since Beam would otherwise read this process's command line.
    options = PipelineOptions([f"--direct_running_mode={mode}", f"--direct_num_workers={config.workers}"])
    return beam.Pipeline(runner=FnApiRunner(), options=options)


def run(pipeline: Any) -> None:
    """Runs a pipeline to its end.

    Raises:
        PipelineError: What a worker raised; runners hand it on as text, out of which the error is made again.
    """
    try:
        pipeline.run().wait_until_finish()
    except PipelineError as error:
        raise type(error)(_without_step(str(error))) from error
    except Exception as error:
        raised = _worker_error(str(error))
        if raised is None:
            raise
        raise raised from error


def _worker_error(text: str) -> PipelineError | None:
    found = re.findall(r"^pipeline\.errors\.(\w+): (.*)$", text, flags=re.MULTILINE)
    if not found:
        return None
    name, message = found[-1]
    return getattr(errors, name)(_without_step(message))  # type: ignore[no-any-return]


def _without_step(message: str) -> str:
    """The message without the name of the step that Beam adds."""
    return message.split(" [while running")[0]


def threads_per_worker(config: RunnerConfig) -> int:
    """Cores for each local process, at least one."""
    return max(1, (os.cpu_count() or 1) // config.workers)
