"""Models that every machine finds for itself: shipped ones by name, and those on an object store, fetched once."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo_model.shipped import model_folder
from pipeline.config import Precision
from pipeline.encoding import Encoder, EncoderFactory, EncoderSpec
from pipeline.errors import ConfigError
from pipeline.storage import Folder

CACHE_VARIABLE = "ELMO_MODEL_CACHE"


@dataclass(frozen=True, kw_only=True)
class LocatedEncoderFactory:
    """The encoder of a model that lies elsewhere on each machine.

    Attributes:
        model: The name of a shipped model, or the URL of a folder or file.
        build: Makes the factory for a local path.
    """

    model: str
    build: Callable[[str], EncoderFactory]

    def describe(self) -> EncoderSpec:
        """As the family's own factory, from the files on this machine."""
        return self._local().describe()

    def check(self, *, device: str, precision: Precision, carried_state: bool) -> None:
        """As the family's own factory."""
        self._local().check(device=device, precision=precision, carried_state=carried_state)

    def load(self, *, columns: Sequence[str], device: str, precision: Precision, carried_state: bool) -> Encoder:
        """As the family's own factory, from the files on this machine."""
        return self._local().load(columns=columns, device=device, precision=precision, carried_state=carried_state)

    def _local(self) -> EncoderFactory:
        return self.build(str(fetched(self.model) if "://" in self.model else model_folder(self.model)))


def fetched(url: str) -> Path:
    """The local copy of a folder or file on an object store.

    It is kept in a cache, whose place the environment variable ELMO_MODEL_CACHE says, by default
    `~/.cache/elmo-features`. A model that has changed on the store is fetched again.

    Raises:
        ConfigError: There is nothing at the URL.
        StorageError: It cannot be read.
    """
    parent, _, last = url.rstrip("/").rpartition("/")
    if not parent.endswith("/") and Folder(parent).exists(last):
        folder, names, single = Folder(parent), [last], True
    else:
        folder, single = Folder(url), False
        names = list(folder.walk())
    if not names:
        raise ConfigError(f"model {url}: there is no such file or folder")
    versions = [url, *(f"{name} {folder.version(name)}" for name in names)]
    key = hashlib.sha256("\n".join(versions).encode()).hexdigest()[:16]
    cache = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "elmo-features") / key
    if not cache.is_dir():
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent, prefix=".fetching-") as temporary:
            copy = Path(temporary) / "model"
            for name in names:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                folder.fetch(name, copy / name)
            # Of several processes that fetch at once the first one's copy stays.
            with contextlib.suppress(OSError):
                copy.rename(cache)
    return cache / last if single else cache
