"""Which GPU a worker process takes where a machine has several: each process the one with the fewest so far."""

import fcntl
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

# Files that stay open, and locked, until the process ends, however it ends.
_held: dict[Path, tuple[int, BinaryIO]] = {}


def dealt_gpu(count: int) -> int:
    """The number of the GPU, below `count`, that this process computes on; always the same in one process.

    Every place of every GPU is a file in the folder for temporary files, which its process keeps locked. Places are
    asked for in turns, so no GPU gets a second process before each has one.
    """
    folder = Path(tempfile.gettempdir()) / f"elmo-features-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    place = 0
    while folder not in _held:
        turn, gpu = divmod(place, count)
        file = (folder / f"{_visible()}-{gpu}-{turn}").open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _held[folder] = gpu, file
        except BlockingIOError:
            file.close()
            place += 1
    return _held[folder][0]


def _visible() -> str:
    # Processes that see different GPUs number them differently.
    return "".join(c if c.isalnum() else "_" for c in os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
