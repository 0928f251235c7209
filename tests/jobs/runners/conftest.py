"""What all tests of runners share."""

from pathlib import Path

import pytest

from support.dumping import write_corpus
from support.paths import TESTS


@pytest.fixture(autouse=True)
def workers_find_the_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes unpickle the fake encoder, so they must be able to import it."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus")
