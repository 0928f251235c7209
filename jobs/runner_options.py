"""The options of `elmo dump` that say where it runs, and `elmo submit`, which leaves once the job runs elsewhere."""

from collections.abc import Callable
from typing import Any

import click

from jobs.dataflow.gpus import GpuConfig, GpuMode
from jobs.options import choice
from jobs.runners import Runner, RunnerConfig

_BEAM_OPTIONS = f"{__name__}.beam_options"


class RunnerCommand(click.Command):
    """A command whose arguments after `--` are options of Beam."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts the options of Beam aside, since click would take them for further arguments."""
        own, beam = (args[: args.index("--")], args[args.index("--") + 1 :]) if "--" in args else (args, [])
        ctx.meta[_BEAM_OPTIONS] = tuple(beam)
        return super().parse_args(ctx, own)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage with its last part."""
        return [*super().collect_usage_pieces(ctx), "[-- OPTIONS OF BEAM]"]


def runner_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `runner`, `workers`, `gpu`, `gpu_mode` and `take_over` to a command of class RunnerCommand."""
    options = [
        choice(
            "--runner",
            of=Runner,
            default=RunnerConfig.runner,
            help="Where the work is done; options of the runner follow after --.",
        ),
        click.option("--workers", type=int, help="Processes here, by default 1; elsewhere the runner decides."),
        click.option("--gpu", metavar="TYPE", help="Dataflow: the GPU of each worker, such as nvidia-l4."),
        choice(
            "--gpu-mode",
            of=GpuMode,
            default=GpuConfig.mode,
            help="Dataflow: one model a machine, several that share the GPU, or a GPU for the computing step alone.",
        ),
        click.option(
            "--take-over",
            is_flag=True,
            help="On an object store: go on with the output of a job that is known to be dead.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def runner_config(*, runner: Runner, workers: int | None, gpu: str | None, gpu_mode: GpuMode) -> RunnerConfig:
    """The runner that the options of the running command describe.

    Raises:
        ConfigError: They contradict each other.
    """
    return RunnerConfig(
        runner=runner,
        workers=workers,
        options=click.get_current_context().meta[_BEAM_OPTIONS],
        gpu=GpuConfig(accelerator=gpu, mode=gpu_mode) if gpu is not None else None,
    )
