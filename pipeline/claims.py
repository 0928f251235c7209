"""Claims on a folder of an object store, where no lock dies with its process.

A claim is an object `locks/00001.json` that says who writes to the folder. Stores can be told to put an object only if
there is none of its name, so of two jobs that want the same number one is refused. Whoever takes over from a dead job
writes the next number: again only one can, and the highest number is the one that counts.
"""

import json
from typing import TYPE_CHECKING, Any

from pipeline.errors import OutputInUseError
from pipeline.schema import LOCKS

if TYPE_CHECKING:
    from pipeline.storage import Folder


class Claim:
    """The right to write to a folder, from its making until `release`, or as long as the job it is left to.

    Args:
        folder: On an object store.
        holder: Who claims it: `host`, `pid` and `since`.
        take_over: Claim it even from another job, which the caller knows to be dead.

    Raises:
        OutputInUseError: Another job holds the folder, or was faster; names it.
        StorageError: The claim cannot be written.
    """

    def __init__(self, folder: "Folder", holder: dict[str, Any], *, take_over: bool) -> None:
        self._folder = folder
        self._holder = holder
        self._left_to_job = False
        before = folder.list(LOCKS)
        if before and not take_over:
            raise _refusal(folder, before[-1])
        number = int(before[-1].rpartition("/")[2].removesuffix(".json")) + 1 if before else 1
        self._name = f"{LOCKS}/{number:05d}.json"
        if not folder.create_bytes(self._name, json.dumps(holder).encode()):
            raise _refusal(folder, self._name)
        # Between the two lists the folder may have been claimed, taken over and left at this very number.
        latest = folder.list(LOCKS)[-1]
        if latest != self._name:
            folder.remove(self._name)
            raise _refusal(folder, latest)
        for name in before:
            folder.remove(name)

    def leave_to(self, job: str) -> None:
        """Lets the claim outlive this process: it is from now on that of a job elsewhere, whose commit removes it."""
        self._folder.write_bytes(self._name, json.dumps(self._holder | {"job": job}).encode())
        self._left_to_job = True

    def release(self) -> None:
        """Gives the folder back, unless it was left to a job."""
        if not self._left_to_job:
            self._folder.remove(self._name)


def describe_holder(data: bytes) -> str:
    """Who holds a lock or claim, in words."""
    try:
        holder = json.loads(data)
        described = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        return f"job {holder['job']}, submitted by {described}" if "job" in holder else described
    except (ValueError, KeyError, TypeError):
        return "a job that has just started"


def _refusal(folder: "Folder", name: str) -> OutputInUseError:
    return OutputInUseError(
        f"{folder.url} is in use by {describe_holder(folder.read_bytes(name))}; wait for it, or, if it is dead, "
        "run the same command again with --take-over"
    )
