"""Where test data lies: golden data beside the tests, larger references in a folder next to the checkout."""

import os
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
GOLDEN = TESTS / "golden"


def shared(relative: str) -> Path:
    """The path of reference data outside the repository; skips the calling test where it is absent.

    `ELMO_SHARED` names the folder; by default it is `shared` beside the checkout.
    """
    root = Path(os.environ.get("ELMO_SHARED", TESTS.parent.parent / "shared"))
    path = root / relative
    if not path.exists():
        pytest.skip(f"reference data {relative!r} is not at {root} (set ELMO_SHARED to the folder that holds it)")
    return path
