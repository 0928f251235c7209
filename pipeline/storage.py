"""Folders of files on a local disk or an object store: the only module that knows URLs and file systems.

What is written appears under its final name whole or not at all. A local file is written under a temporary name beside
it, synced, and renamed; an object is put under its final name at once, since no object store renames atomically.
"""

import contextlib
import errno
import io
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec

from pipeline import locking
from pipeline.claims import Claim, describe_holder
from pipeline.errors import ConfigError, OutputInUseError, PipelineError, StorageError
from pipeline.schema import LOCK

_TEMPORARY = ".tmp-"

# Of a remote file: what is fetched beyond what was asked for, since each request costs more time than so many bytes.
_READ_AHEAD = 1 << 15
_SMALL_READS = 1 << 12

_ADVICE = {
    errno.ENOSPC: "free some space and run the same command again",
    errno.EDQUOT: "free some of the quota and run the same command again",
    errno.EFBIG: "the file system or a limit of this shell allows no larger file",
    errno.EACCES: "check the permissions, or choose another place",
    errno.EPERM: "check the permissions, or choose another place",
    errno.EROFS: "choose a place that can be written",
}


class Folder:
    """A folder, local or remote, with files under relative POSIX names such as `shards/00012-0123abcd.h5`.

    Small to pickle and cheap to open: nothing is created, read or reached before it is asked for.

    Attributes:
        url: As given; a path or `file://` URL is local, any other `scheme://` goes through fsspec.
        is_local: Whether the files are on this machine's file system.

    Raises:
        ConfigError: The URL's scheme is unknown here, or its library is not installed.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url)
        path = self.url.removeprefix("file://")
        self.is_local = "://" not in path
        self._root = path
        if not self.is_local:
            if "@" in path.split("://", 1)[1].split("/", 1)[0]:
                # The URL stands in plans, receipts and messages.
                raise ConfigError("a URL must not hold a user name or password; the store's own settings give them")
            _, self._root = self._file_system()

    def _file_system(self) -> tuple[Any, str]:
        """The file system of a remote folder, one for each process since their connections do not survive a fork."""
        try:
            # What was listed once says nothing about what other workers have written since.
            return cast(tuple[Any, str], fsspec.core.url_to_fs(self.url, use_listings_cache=False))
        except (ImportError, ValueError) as error:
            raise ConfigError(f"cannot use {self.url}: {error}") from None

    @property
    def _fs(self) -> Any:
        # fsspec keeps the instances of a process, so this costs a look-up.
        return self._file_system()[0]

    def __repr__(self) -> str:
        return f"Folder({self.url!r})"

    def local_path(self, name: str) -> Path | None:
        """The path of a file, whether or not it exists; None where the folder is remote."""
        return self._path(name) if self.is_local else None

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        with self.explained("look for", name):
            if self.is_local:
                return self._path(name).is_file()
            try:
                # Its isfile() takes any failure, also of the network, for an absent file.
                return bool(self._fs.info(self._key(name))["type"] == "file")
            except FileNotFoundError:
                return False

    def size(self, name: str) -> int:
        """The size of a file in bytes.

        Raises:
            StorageError: There is no such file, or it cannot be reached.
        """
        with self.explained("read", name):
            return self._path(name).stat().st_size if self.is_local else int(self._fs.size(self._key(name)))

    def read_bytes(self, name: str) -> bytes:
        """The contents of a file.

        Raises:
            StorageError: It cannot be read.
        """
        with self.explained("read", name):
            return self._path(name).read_bytes() if self.is_local else bytes(self._fs.cat_file(self._key(name)))

    def open(self, name: str) -> BinaryIO:
        """A file opened for reading at any position; the caller closes it.

        Raises:
            StorageError: It cannot be opened.
        """
        with self.explained("read", name):
            if self.is_local:
                return self._path(name).open("rb")
            file = self._fs.open(self._key(name), block_size=_READ_AHEAD, cache_type="readahead")
            return cast(BinaryIO, io.BufferedReader(_RemoteFile(file, self, name), _SMALL_READS))

    def list(self, prefix: str) -> list[str]:
        """The names of the files directly in a sub-folder, sorted, without temporary ones; [] where there is none."""
        return [f"{prefix}/{name}" for name, is_file in self._entries(prefix) if is_file and not _is_temporary(name)]

    def walk(self) -> Sequence[str]:
        """The names of all files in a remote folder and its sub-folders, sorted, without temporary ones."""
        with self.explained("list", "."), contextlib.suppress(FileNotFoundError):
            found = (key.removeprefix(self._root).lstrip("/") for key in self._fs.find(self._root))
            return sorted(name for name in found if name and not _is_temporary(name.rpartition("/")[2]))
        return []

    def top_level(self) -> tuple[str, ...]:
        """The names of the files and sub-folders directly in the folder, sorted, without temporary ones."""
        return tuple(name for name, _ in self._entries("") if not _is_temporary(name))

    def write_bytes(self, name: str, data: bytes) -> None:
        """Writes a file in one step, in the place of one of the same name.

        Raises:
            StorageError: It cannot be written; what stood there is untouched.
        """
        if self.is_local:
            with self.staged(name) as path:
                with self.explained("write", name):
                    path.write_bytes(data)
                self.publish(path, name)
        else:
            with self.explained("write", name):
                self._fs.pipe_file(self._key(name), data)

    def create_bytes(self, name: str, data: bytes) -> bool:
        """Writes a file unless one of that name exists; of several racing writers exactly one is told True.

        Raises:
            StorageError: It cannot be written.
        """
        if not self.is_local:
            with self.explained("create", name):
                try:
                    self._fs.pipe_file(self._key(name), data, mode="create")
                except FileExistsError:
                    return False
                return True
        with self.staged(name) as path, self.explained("create", name):
            path.write_bytes(data)
            _sync(path)
            try:
                # Unlike a rename, a link never replaces what stands there.
                os.link(path, self._path(name))
            except FileExistsError:
                return False
            _sync(self._path(name).parent)
            return True

    @contextlib.contextmanager
    def staged(self, name_hint: str) -> Iterator[Path]:
        """A local path to write a file to before `publish`; removed at the end unless published.

        It lies beside the place where `name_hint` will be, or in a temporary folder where that is remote, and has the
        same suffix.
        """
        if not self.is_local:
            with tempfile.TemporaryDirectory(prefix="elmo-features-") as folder:
                yield Path(folder) / Path(name_hint).name
            return
        target = self._path(name_hint)
        with self.explained("write", name_hint):
            _make_folder(target.parent)
        path = target.with_name(f"{_TEMPORARY}{secrets.token_hex(6)}-{target.name}")
        try:
            yield path
        finally:
            with contextlib.suppress(OSError):
                path.unlink()

    def publish(self, path: Path, name: str) -> None:
        """Gives a staged file its final name, in one durable step.

        Raises:
            StorageError: It cannot be written; nothing stands under the final name that did not before.
        """
        with self.explained("write", name):
            if self.is_local:
                _sync(path)
                os.replace(path, self._path(name))
                _sync(self._path(name).parent)
            else:
                self._fs.put_file(str(path), self._key(name))

    def remove(self, name: str) -> None:
        """Removes a file, if it exists."""
        with self.explained("remove", name), contextlib.suppress(FileNotFoundError):
            if self.is_local:
                self._path(name).unlink()
            else:
                self._fs.rm_file(self._key(name))

    def remove_all(self, prefix: str) -> None:
        """Removes a sub-folder and all in it, if it exists."""
        with self.explained("remove", prefix), contextlib.suppress(FileNotFoundError):
            if self.is_local:
                shutil.rmtree(self._path(prefix))
            else:
                self._fs.rm(self._key(prefix), recursive=True)

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
        if not self.is_local:
            return None
        path = Path(self._root).absolute()
        while not path.exists():
            path = path.parent
        return shutil.disk_usage(path).free

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
        if self.is_local:
            data = json.dumps(holder).encode()
            path = self._path(LOCK)
            with self.explained("lock", LOCK):
                try:
                    file = locking.take(path, data)
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

    def _entries(self, sub_folder: str) -> Sequence[tuple[str, bool]]:
        """The names directly in a sub-folder, each with whether it is a file; sorted."""
        with self.explained("list", sub_folder or "."), contextlib.suppress(FileNotFoundError):
            if self.is_local:
                path = self._path(sub_folder) if sub_folder else Path(self._root)
                return sorted((entry.name, entry.is_file()) for entry in os.scandir(path))
            key = self._key(sub_folder) if sub_folder else self._root
            found = self._fs.ls(key, detail=True, refresh=True)
            return sorted((entry["name"].rstrip("/").rpartition("/")[2], entry["type"] == "file") for entry in found)
        return []

    def _path(self, name: str) -> Path:
        return Path(self._root, _safe(name))

    def _key(self, name: str) -> str:
        return f"{self._root}/{_safe(name)}"

    @contextlib.contextmanager
    def explained(self, action: str, name: str) -> Iterator[None]:
        """Turns what goes wrong inside into a StorageError: could not `action` this file, and why."""
        # The clients of object stores raise errors of their own kinds.
        kinds: type[Exception] = OSError if self.is_local else Exception
        try:
            yield
        except PipelineError:
            raise
        except kinds as error:
            raise StorageError(f"cannot {action} {self.url.rstrip('/')}/{name}: {explain(error)}") from error


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


class _RemoteFile(io.RawIOBase):
    """A file of an object store, every failure of which is a StorageError."""

    def __init__(self, file: Any, folder: Folder, name: str) -> None:
        self._file = file
        self._folder = folder
        self._name = name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        with self._folder.explained("read", self._name):
            return int(self._file.readinto(buffer))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def explain(error: Exception) -> str:
    """The reason of a failed read or write in words, with what to do where that is known."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error) or type(error).__name__
    reason = os.strerror(error.errno)
    advice = _ADVICE.get(error.errno)
    return f"{reason}; {advice}" if advice else reason


def _safe(name: str) -> str:
    """Names come from receipts and manifests, which anyone may have written."""
    if not name or "\\" in name or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise StorageError(f"{name!r} is not a relative name inside a folder")
    return name


def _is_temporary(name: str) -> bool:
    return name.startswith(_TEMPORARY)


def _make_folder(path: Path) -> None:
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a directory; what they then guarantee is theirs to say.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
