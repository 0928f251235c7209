"""The `elmo` command: parses, calls, prints. A command's module is imported only when the command is used."""

import importlib
import logging
import sys
import traceback
from typing import Any, NoReturn

import click

from elmo_model.errors import ElmoModelError
from jobs.memory import keep_no_pool_for_arrow
from jobs.stopping import Interrupted
from pipeline.errors import PipelineError

EXIT_OK = 0
EXIT_INTERNAL = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

COMMANDS = {
    "dump": "jobs.dump:dump",
    "submit": "jobs.submit:submit",
    "status": "jobs.status:status",
    "inspect": "jobs.inspect:inspect",
    "verify": "jobs.verify:verify",
    "convert": "jobs.convert:convert",
    "vocab": "jobs.vocab:vocab",
    "pretrain": "jobs.pretrain:pretrain",
    "evaluate": "jobs.evaluate:evaluate",
    "models": "jobs.models:models",
    "token-table": "jobs.token_table:token_table",
    "train": "jobs.train:train",
    "study": "jobs.study:study",
    "plot": "jobs.plot:plot",
    "neighbours": "jobs.neighbours:neighbours",
}


class LazyGroup(click.Group):
    """A group whose commands stand in COMMANDS, so that `elmo status` need not import what `elmo dump` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="elmo-features", prog_name="elmo")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def elmo(debug: bool) -> None:
    """Frozen ELMo features of a corpus: compute once, verify, train on them.

    \b
    elmo dump corpus/ features/           every sentence of a folder of text, into a feature store
    elmo inspect features/                what is in it, and how to load it
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process.

    Exit codes: 0 whole, 3 finished with failed sentences, 2 usage or bad input, 1 internal error, 130 or 143 told to
    stop.
    """
    keep_no_pool_for_arrow()
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    if not debug:
        # Beam logs the traceback of whatever a worker raises; the error itself arrives here as well.
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
        logging.getLogger().setLevel(logging.ERROR)
        logging.getLogger("elmo_model").setLevel(logging.WARNING)
    try:
        # The flag counts wherever it stands, also after the command.
        given = [argument for argument in arguments if argument != "--debug"]
        code: Any = elmo.main(args=given, prog_name="elmo", standalone_mode=False)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.UsageError as error:
        error.show()
        code = EXIT_USAGE
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except Interrupted as stopped:
        click.echo(f"elmo: {stopped}", err=True)
        code = stopped.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = EXIT_INTERRUPTED
    except (PipelineError, ElmoModelError) as error:
        if debug:
            traceback.print_exc()
        click.echo(f"elmo: {' '.join(str(error).splitlines())}", err=True)
        code = EXIT_USAGE
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            click.echo("This is a fault of the program, not of the input; --debug shows where.", err=True)
        click.echo(f"elmo: {type(error).__name__}: {error}", err=True)
        code = EXIT_INTERNAL
    sys.exit(code if isinstance(code, int) else EXIT_OK)


if __name__ == "__main__":
    main()
