"""What goes wrong with files and object stores, in words for the person who has to put it right."""

import contextlib
import errno
import os
from collections.abc import Iterator

from pipeline.errors import PipelineError, StorageError

_ADVICE = {
    errno.ENOSPC: "free some space and run the same command again",
    errno.EDQUOT: "free some of the quota and run the same command again",
    errno.EFBIG: "the file system or a limit of this shell allows no larger file",
    errno.EACCES: "check the permissions, or choose another place",
    errno.EPERM: "check the permissions, or choose another place",
    errno.EROFS: "choose a place that can be written",
}


def explain(error: Exception) -> str:
    """The reason of a failed read or write, with what to do where that is known."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error) or type(error).__name__
    reason = os.strerror(error.errno)
    advice = _ADVICE.get(error.errno)
    return f"{reason}; {advice}" if advice else reason


@contextlib.contextmanager
def explained(action: str, where: str, kinds: type[Exception] = OSError) -> Iterator[None]:
    """Turns errors of these kinds into a StorageError: could not `action` this place, and why."""
    try:
        yield
    except PipelineError:
        raise
    except kinds as error:
        raise StorageError(f"cannot {action} {where}: {explain(error)}") from error
