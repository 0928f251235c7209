"""Copies of a store's files in a folder of this machine.

Each is named by the digest that the manifest gives, so a copy is never out of date, one folder serves any number of
stores, and processes that fetch side by side cannot mix up what they fetch.
"""

import os

from pipeline.errors import DamageError
from pipeline.local_files import TEMPORARY
from pipeline.sealed import sha256_of
from pipeline.storage import Folder, StoredFile


def copy_of(file: StoredFile, *, sha256: str, cache: Folder) -> StoredFile:
    """The local copy of a file, fetched now unless it was before.

    Of several processes and threads that ask for the same file one fetches it and the others wait.

    Args:
        file: Of a store, remote or local.
        sha256: Its digest.
        cache: A local folder, made if need be. Nothing is ever removed from it; anyone may, also while it is in use.

    Raises:
        DamageError: The file has another digest.
        StorageError: It cannot be read, or the copy not be written.
    """
    name = sha256 + os.path.splitext(file.name)[1]
    if not cache.exists(name):
        with cache.explained("write", name):
            _fetch(file, name, sha256=sha256, cache=cache)
    return StoredFile(cache, name)


def _fetch(file: StoredFile, name: str, *, sha256: str, cache: Folder) -> None:
    import fcntl  # noqa: PLC0415 - POSIX only, while stores can be read without copies elsewhere too

    path = cache.local_path(f"{TEMPORARY}{name}")
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        if cache.exists(name):
            path.unlink(missing_ok=True)  # unless it has become the copy, it was made anew since
            return
        try:
            file.folder.fetch(file.name, path)
            if sha256_of(part) != sha256:
                raise DamageError(
                    f"{file.folder.url}/{file.name} is damaged: its digest is not the one in the manifest"
                )
            cache.publish(path, name)
        except BaseException:
            part.truncate(0)  # not removed, since others may wait for the lock on it
            raise
