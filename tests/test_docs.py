"""The README keeps its word: its commands exist, its examples run, its tables say what the code says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from jobs.cli import COMMANDS, elmo
from pipeline import schema
from support.paths import TESTS

README = TESTS.parent / "README.md"
SAMPLE = TESTS.parent / "jobs/sample/corpus"
TEXT = README.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = CliRunner().invoke(elmo, [name, "--help"])
    assert done.exit_code == 0, done.output
    command = elmo.get_command(click.Context(elmo), name)
    assert command is not None and command.help
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help or parameter.hidden, parameter.name


def test_every_command_of_the_readme_exists_with_its_options() -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("elmo ")]
    assert lines
    for line in lines:
        _, name, *arguments = shlex.split(line, comments=True)
        # What follows after -- are options of Beam; a submitted dump has those of a dump.
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        command = elmo.get_command(click.Context(elmo), "dump" if name == "submit" else name)
        assert command is not None, line
        options = {option for parameter in command.params for option in parameter.opts}
        assert {argument for argument in own if argument.startswith("--")} <= options, line


def test_the_table_of_files_is_the_schema() -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", TEXT, flags=re.MULTILINE))
    assert schema.__doc__ is not None
    stated = dict(re.findall(r"^    (\S+)\s{2,}(.+)$", schema.__doc__.split("An HDF5 shard")[0], flags=re.MULTILINE))
    assert stated and rows == stated


def test_the_examples_run_as_printed(tmp_path: Path) -> None:
    dump = [sys.executable, "-m", "jobs", "dump", str(SAMPLE), "features/"]
    done = subprocess.run(dump, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    examples = blocks("python")
    assert len(examples) == 3
    for example in examples:
        done = subprocess.run(
            [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
