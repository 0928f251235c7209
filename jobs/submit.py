"""`elmo submit dataflow`: the same dump, submitted; `elmo status` follows it."""

import click

from jobs.dump import dump


class _PassedOn(click.Command):
    """A command that hands its arguments on as they are, `--` and `--help` included."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes the first argument as the runner, the rest as those of `elmo dump`."""
        runner, *ctx.params["arguments"] = args or ["--help"]
        if runner in ("-h", "--help"):
            click.echo(self.get_help(ctx))
            ctx.exit()
        if runner != "dataflow":
            raise click.UsageError(f"{runner!r} is no runner that goes on by itself; there is dataflow", ctx)
        return []

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """What the arguments are."""
        return ["dataflow INPUTS... OUTPUT [OPTIONS OF elmo dump] -- [OPTIONS OF BEAM]"]


@click.command(cls=_PassedOn)
def submit(arguments: list[str]) -> int:
    """Plan a dump, submit it to Dataflow, print the id of the job and leave.

    With --dry-run print the forecast and the request instead, and send nothing. Dataflow needs --project, --region
    and --temp_location after --, and either --sdk_container_image or --setup_file. `elmo status OUTPUT` follows the
    job; if it fails, the same command with --take-over goes on.
    """
    code = dump.main(
        ["--runner", "dataflow", "--no-wait", *arguments], prog_name="elmo submit dataflow", standalone_mode=False
    )
    return code if isinstance(code, int) else 0
