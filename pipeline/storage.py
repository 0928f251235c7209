"""Folders of files on a local disk or an object store: what the pipeline knows of URLs and file systems.

What is written appears under its final name whole or not at all. A local file is written under a temporary name beside
it, synced, and renamed; an object is put under its final name at once, since no object store renames atomically.
"""

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pipeline import locking
from pipeline.claims import Claim, describe_holder
from pipeline.errors import OutputInUseError, StorageError
from pipeline.faults import explain, explained
from pipeline.local_files import TEMPORARY, LocalFiles
from pipeline.remote_files import RemoteFiles
from pipeline.schema import LOCK

__all__ = ["Folder", "StoredFile", "explain"]


class Folder:
    """A folder, local or remote, with files under relative POSIX names such as `shards/00012-0123abcd.h5`.

    Small to pickle and cheap to open: nothing is created, read or reached before it is asked for.

    Attributes:
        url: As given; a path or `file://` URL is local, any other `scheme://` goes through fsspec.

    Raises:
        ConfigError: The URL's scheme is unknown here, its library is not installed, or it holds a password.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url)
        path = self.url.removeprefix("file://")
        self._files: LocalFiles | RemoteFiles = RemoteFiles(path) if "://" in path else LocalFiles(path)

    def __repr__(self) -> str:
        return f"Folder({self.url!r})"

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine's file system."""
        return isinstance(self._files, LocalFiles)

    def local_path(self, name: str) -> Path | None:
        """The path of a file, whether or not it exists; None where the folder is remote."""
        return self._files.path(_safe(name)) if isinstance(self._files, LocalFiles) else None

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        with self.explained("look for", name):
            return self._files.is_file(_safe(name))

    def size(self, name: str) -> int:
        """The size of a file in bytes.

        Raises:
            StorageError: There is no such file, or it cannot be reached.
        """
        with self.explained("read", name):
            return self._files.size(_safe(name))

    def read_bytes(self, name: str) -> bytes:
        """The contents of a file.

        Raises:
            StorageError: It cannot be read.
        """
        with self.explained("read", name):
            return self._files.read(_safe(name))

    def open(self, name: str) -> BinaryIO:
        """A file opened for reading at any position; the caller closes it.

        Raises:
            StorageError: It cannot be opened.
        """
        with self.explained("read", name):
            return self._files.open(_safe(name))

    def list(self, prefix: str) -> list[str]:
        """The names of the files directly in a sub-folder, sorted, without temporary ones; [] where there is none."""
        return [f"{prefix}/{name}" for name, is_file in self._entries(prefix) if is_file and not _is_temporary(name)]

    def walk(self) -> Sequence[str]:
        """The names of all files in a remote folder and its sub-folders, sorted, without temporary ones."""
        with self.explained("list", "."), contextlib.suppress(FileNotFoundError):
            return sorted(name for name in self._remote.walk() if name and not _is_temporary(name.rpartition("/")[2]))
        return []

    def top_level(self) -> tuple[str, ...]:
        """The names of the files and sub-folders directly in the folder, sorted, without temporary ones."""
        return tuple(name for name, _ in self._entries("") if not _is_temporary(name))

    def write_bytes(self, name: str, data: bytes) -> None:
        """Writes a file in one step, in the place of one of the same name.

        Raises:
            StorageError: It cannot be written; what stood there is untouched.
        """
        with self.explained("write", name):
            self._files.write(_safe(name), data)

    def create_bytes(self, name: str, data: bytes) -> bool:
        """Writes a file unless one of that name exists; of several racing writers exactly one is told True.

        Raises:
            StorageError: It cannot be written.
        """
        with self.explained("create", name):
            return self._files.create(_safe(name), data)

    @contextlib.contextmanager
    def staged(self, name_hint: str) -> Iterator[Path]:
        """A local path to write a file to before `publish`; removed at the end unless published.

        It lies beside the place where `name_hint` will be, or in a temporary folder where that is remote, and has the
        same suffix.
        """
        with contextlib.ExitStack() as stack:
            with self.explained("write", name_hint):
                path = stack.enter_context(self._files.staged(_safe(name_hint)))
            yield path

    def publish(self, path: Path, name: str) -> None:
        """Gives a staged file its final name, in one durable step.

        Raises:
            StorageError: It cannot be written; nothing stands under the final name that did not before.
        """
        with self.explained("write", name):
            self._files.publish(path, _safe(name))

    def fetch(self, name: str, path: Path) -> None:
        """Copies a file to a local path.

        Raises:
            StorageError: It cannot be read.
        """
        with self.explained("read", name):
            self._files.fetch(_safe(name), path)

    def version(self, name: str) -> str:
        """What changes whenever a remote file is replaced.

        Raises:
            StorageError: There is no such file, or it cannot be reached.
        """
        with self.explained("read", name):
            return self._remote.version(_safe(name))

    def remove(self, name: str) -> None:
        """Removes a file, if it exists."""
        with self.explained("remove", name), contextlib.suppress(FileNotFoundError):
            self._files.remove(_safe(name))

    def remove_all(self, prefix: str) -> None:
        """Removes a sub-folder and all in it, if it exists."""
        with self.explained("remove", prefix), contextlib.suppress(FileNotFoundError):
            self._files.remove_tree(_safe(prefix))

    def remove_stale(self) -> None:
        """Removes the temporary files that dead jobs left; call it under the lock."""
        if not self.is_local:
            return
        for sub_folder in ["", *(name for name, is_file in self._entries("") if not is_file)]:
            for name, is_file in self._entries(sub_folder):
                if is_file and _is_temporary(name):
                    self.remove(f"{sub_folder}/{name}" if sub_folder else name)

    def free_bytes(self) -> int | None:
        """The bytes free on the disk of the folder, which need not exist yet; None where it is remote."""
        return self._files.free_bytes() if isinstance(self._files, LocalFiles) else None

    @contextlib.contextmanager
    def lock(self, *, take_over: bool = False) -> Iterator[Claim | None]:
        """Keeps every other job off the folder while the block runs; makes the folder, and removes it if left empty.

        A local lock dies with its process, so that of a killed job is taken over by itself. A remote one is a claim,
        given to the block, which outlives its process.

        Args:
            take_over: Take the claim of a job that is known to be dead.

        Raises:
            OutputInUseError: Another job holds the lock; names its host, process and start.
            StorageError: The lock cannot be written.
        """
        holder = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        path = self.local_path(LOCK)
        if path is not None:
            with self.explained("lock", LOCK):
                try:
                    file = locking.take(path, json.dumps(holder).encode())
                except locking.LockHeldError as held:
                    found = describe_holder(held.args[0])
                    raise OutputInUseError(f"{self.url} is in use by {found}; wait for it, or stop it first") from None
            try:
                yield None
            finally:
                locking.release(path, file)
            return
        claim = Claim(self, holder, take_over=take_over)
        try:
            yield claim
        finally:
            claim.release()

    def explained(self, action: str, name: str) -> contextlib.AbstractContextManager[None]:
        """Turns what goes wrong inside into a StorageError: could not `action` this file, and why."""
        return explained(action, f"{self.url.rstrip('/')}/{name}", self._files.faults)

    @property
    def _remote(self) -> RemoteFiles:
        if isinstance(self._files, LocalFiles):
            raise TypeError(f"{self.url} is local: read its files as such")
        return self._files

    def _entries(self, sub_folder: str) -> Sequence[tuple[str, bool]]:
        """The names directly in a sub-folder, each with whether it is a file; sorted."""
        with self.explained("list", sub_folder or "."), contextlib.suppress(FileNotFoundError):
            return sorted(self._files.entries(_safe(sub_folder) if sub_folder else ""))
        return []


@dataclass(frozen=True)
class StoredFile:
    """A file of a folder, wherever that is."""

    folder: Folder
    name: str

    def open(self) -> BinaryIO:
        """The file opened for reading; the caller closes it.

        Raises:
            StorageError: It cannot be opened.
        """
        return self.folder.open(self.name)


def _safe(name: str) -> str:
    """Names come from receipts and manifests, which anyone may have written."""
    if not name or "\\" in name or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise StorageError(f"{name!r} is not a relative name inside a folder")
    return name


def _is_temporary(name: str) -> bool:
    return name.startswith(TEMPORARY)
