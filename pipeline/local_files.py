"""Files below a folder of this machine: temporary until whole, then durable under their final name."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from errno import EINVAL
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".tmp-"


class LocalFiles:
    """The files below a path, by relative names; every method raises OSError where it fails.

    Attributes:
        faults: The errors to expect.
    """

    faults: type[Exception] = OSError

    def __init__(self, root: str) -> None:
        self.root = Path(root)

    def path(self, name: str) -> Path:
        """Where the file is, or would be."""
        return self.root / name

    def is_file(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return self.path(name).is_file()

    def size(self, name: str) -> int:
        """The size of a file in bytes."""
        return self.path(name).stat().st_size

    def read(self, name: str) -> bytes:
        """The contents of a file."""
        return self.path(name).read_bytes()

    def open(self, name: str) -> BinaryIO:
        """A file opened for reading."""
        return self.path(name).open("rb")

    def fetch(self, name: str, path: Path) -> None:
        """Copies a file to another local path."""
        shutil.copyfile(self.path(name), path)

    def entries(self, sub_folder: str) -> list[tuple[str, bool]]:
        """The names directly in a sub-folder, "" being the folder itself, each with whether it is a file."""
        return [(entry.name, entry.is_file()) for entry in os.scandir(self.path(sub_folder))]

    def write(self, name: str, data: bytes) -> None:
        """Writes a file in one step, in the place of one of the same name."""
        with self.staged(name) as path:
            path.write_bytes(data)
            self.publish(path, name)

    def create(self, name: str, data: bytes) -> bool:
        """Writes a file unless there is one of that name."""
        with self.staged(name) as path:
            path.write_bytes(data)
            _sync(path)
            try:
                # Unlike a rename, a link never replaces what stands there.
                os.link(path, self.path(name))
            except FileExistsError:
                return False
            _sync(self.path(name).parent)
            return True

    @contextlib.contextmanager
    def staged(self, name: str) -> Iterator[Path]:
        """A temporary path beside that of `name`; what is left there at the end is removed."""
        target = self.path(name)
        _make_folder(target.parent)
        path = target.with_name(f"{TEMPORARY}{secrets.token_hex(6)}-{target.name}")
        try:
            yield path
        finally:
            with contextlib.suppress(OSError):
                path.unlink()

    def publish(self, path: Path, name: str) -> None:
        """Gives a staged file its final name."""
        _sync(path)
        os.replace(path, self.path(name))
        _sync(self.path(name).parent)

    def remove(self, name: str) -> None:
        """Removes a file."""
        self.path(name).unlink()

    def remove_tree(self, sub_folder: str) -> None:
        """Removes a sub-folder and all in it."""
        shutil.rmtree(self.path(sub_folder))

    def free_bytes(self) -> int:
        """The bytes free on the disk of the folder, which need not exist yet."""
        path = self.root.absolute()
        while not path.exists():
            path = path.parent
        return shutil.disk_usage(path).free


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
        if error.errno != EINVAL:
            raise
    finally:
        os.close(descriptor)
