"""Files below a folder of an object store, through fsspec."""

import contextlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec

from pipeline.errors import ConfigError
from pipeline.faults import explained

# What is fetched beyond what was asked for, since each request costs more time than so many bytes.
_READ_AHEAD = 1 << 15
_SMALL_READS = 1 << 12

# The clients of this process, by identity. In a forked process they must not be collected: closing the copies of their
# connections would stop this one, with which it shares the selector, from hearing anything on them.
_clients: dict[int, Any] = {}


class RemoteFiles:
    """The objects below a URL, by relative names; written under their final names at once, as no store can rename.

    Attributes:
        faults: The errors to expect: the clients of object stores raise errors of their own kinds.

    Raises:
        ConfigError: The URL's scheme is unknown here, its library is not installed, or it holds a password.
    """

    faults: type[Exception] = Exception

    def __init__(self, url: str) -> None:
        self._url = url
        if "@" in url.split("://", 1)[1].split("/", 1)[0]:
            # The URL stands in plans, receipts and messages.
            raise ConfigError("a URL must not hold a user name or password; the store's own settings give them")
        _, self._root = self._file_system()

    def is_file(self, name: str) -> bool:
        """Whether there is an object of that name."""
        try:
            # Its isfile() takes any failure, also of the network, for an absent file.
            return bool(self._fs.info(self._key(name))["type"] == "file")
        except FileNotFoundError:
            return False

    def size(self, name: str) -> int:
        """The size of an object in bytes."""
        return int(self._fs.size(self._key(name)))

    def read(self, name: str) -> bytes:
        """The contents of an object."""
        return bytes(self._fs.cat_file(self._key(name)))

    def open(self, name: str) -> BinaryIO:
        """An object opened for reading; also later every failure is a StorageError."""
        file = self._fs.open(self._key(name), block_size=_READ_AHEAD, cache_type="readahead")
        return cast(BinaryIO, io.BufferedReader(_RemoteFile(file, f"{self._url}/{name}"), _SMALL_READS))

    def fetch(self, name: str, path: Path) -> None:
        """Copies an object to a local path."""
        self._fs.get_file(self._key(name), str(path))

    def version(self, name: str) -> str:
        """What changes whenever the object is replaced."""
        return str(self._fs.checksum(self._key(name)))

    def entries(self, sub_folder: str) -> list[tuple[str, bool]]:
        """The names directly in a sub-folder, "" being the folder itself, each with whether it is a file."""
        found = self._fs.ls(self._key(sub_folder), detail=True, refresh=True)
        return [(entry["name"].rstrip("/").rpartition("/")[2], entry["type"] == "file") for entry in found]

    def walk(self) -> list[str]:
        """The names of all objects."""
        return [key.removeprefix(self._root).lstrip("/") for key in self._fs.find(self._root)]

    def write(self, name: str, data: bytes) -> None:
        """Puts an object, in the place of one of the same name."""
        self._fs.pipe_file(self._key(name), data)

    def create(self, name: str, data: bytes) -> bool:
        """Puts an object unless there is one of that name."""
        try:
            self._fs.pipe_file(self._key(name), data, mode="create")
        except FileExistsError:
            return False
        return True

    @contextlib.contextmanager
    def staged(self, name: str) -> Iterator[Path]:
        """A path in a temporary folder of this machine, with the last part of `name`."""
        with tempfile.TemporaryDirectory(prefix="elmo-features-") as folder:
            yield Path(folder) / Path(name).name

    def publish(self, path: Path, name: str) -> None:
        """Puts a staged file as an object."""
        self._fs.put_file(str(path), self._key(name))

    def remove(self, name: str) -> None:
        """Removes an object."""
        self._fs.rm_file(self._key(name))

    def remove_tree(self, sub_folder: str) -> None:
        """Removes all objects of a sub-folder."""
        self._fs.rm(self._key(sub_folder), recursive=True)

    def _file_system(self) -> tuple[Any, str]:
        """The file system, one for each process since its connections do not survive a fork, and the path in it."""
        try:
            # What was listed once says nothing about what other workers have written since.
            client, path = fsspec.core.url_to_fs(self._url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise ConfigError(f"cannot use {self._url}: {error}") from None
        _clients[id(client)] = client
        return client, cast(str, path)

    @property
    def _fs(self) -> Any:
        # fsspec keeps the instances of a process, so this costs a look-up.
        return self._file_system()[0]

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root


class _RemoteFile(io.RawIOBase):
    """An object that is being read."""

    def __init__(self, file: Any, where: str) -> None:
        self._file = file
        self._where = where

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        with explained("read", self._where, Exception):
            return int(self._file.readinto(buffer))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
