"""Ctrl-C and SIGTERM as an exception, so that a job ends at once, in order, and says that it can be resumed."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Interrupted(BaseException):
    """The process was told to stop; like KeyboardInterrupt no error, so that nothing catches it by mistake.

    Attributes:
        exit_code: 128 and the number of the signal, as a shell reports it.
    """

    def __init__(self, signal_number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Within the block a first Ctrl-C or SIGTERM raises Interrupted with this message, a second ends the process.

    Outside the main thread, which alone may set signal handlers, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, end)
        raise Interrupted(number, f"stopped by {signal.Signals(number).name}; {message}")

    def end(number: int, frame: FrameType | None) -> None:
        os._exit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
