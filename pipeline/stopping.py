"""Stopping a job from within its process: workers look between two batches whether they should go on."""

import threading

from pipeline.errors import StoppedError

_requested = threading.Event()


def request_stop() -> None:
    """Makes every worker thread of this process end at its next look."""
    _requested.set()


def clear() -> None:
    """Lets the next job of this process run."""
    _requested.clear()


def check() -> None:
    """Goes on, unless the job was told to stop.

    Raises:
        StoppedError: It was.
    """
    if _requested.is_set():
        raise StoppedError("the job was told to stop")
