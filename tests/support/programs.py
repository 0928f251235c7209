"""Programs of their own, for what a test's own process would hide."""

import os
import subprocess
import sys
from pathlib import Path

from support.paths import TESTS


def output_of(code: str, *arguments: str | Path, **environment: str) -> str:
    """What a program prints, which may import the tests' support; it has to end well."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
