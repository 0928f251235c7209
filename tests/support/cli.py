"""The `elmo` command, in this process or in one of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from jobs.cli import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


def elmo(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Result:
    """Runs the command here; its exit code and what it printed."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return Result(ended.value.code, captured.out, captured.err)


def elmo_process(
    *arguments: str | Path, environment: dict[str, str] | None = None, cwd: Path | None = None, stdin: bytes = b""
) -> Result:
    """Runs the command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "jobs", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=300,
        check=False,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )
    return Result(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))
