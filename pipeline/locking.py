"""A lock on a local folder, held by a process and gone with it."""

import contextlib
import os
from pathlib import Path
from typing import BinaryIO


class LockHeldError(Exception):
    """A living process holds the lock; the argument is what it wrote into the lock file, as bytes."""


def take(path: Path, data: bytes) -> BinaryIO:
    """The locked lock file, with `data` in it; makes the folder it lies in.

    Raises:
        LockHeldError: Another process holds it, or another caller in this one.
        OSError: The file cannot be written.
    """
    import fcntl  # noqa: PLC0415 - POSIX only, while stores can be read elsewhere too

    while True:
        # Whoever releases the lock removes file and folder: they may come and go between any two steps here.
        with contextlib.suppress(FileExistsError):
            path.parent.mkdir(parents=True)
        with contextlib.suppress(FileNotFoundError):
            file = path.open("a+b")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    file.truncate(0)
                    file.write(data)
                    file.flush()
                    return file
                file.close()
            except BlockingIOError:
                file.seek(0)
                found = file.read()
                file.close()
                raise LockHeldError(found) from None
            except BaseException:
                file.close()
                raise


def release(path: Path, file: BinaryIO) -> None:
    """Gives the lock back; removes the lock file, and the folder if nothing else is in it."""
    with contextlib.suppress(OSError):
        path.unlink()
    file.close()
    with contextlib.suppress(OSError):
        path.parent.rmdir()
