"""Memory of a dump on this machine: what is freed, or not needed any more, doesn't stay with a part of it."""

import ctypes
import mmap
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

_M_ARENA_MAX = -8  # a parameter of glibc's mallopt

# The bounds of a mapping of a file that can be executed, can't be written, and has no page of its own.
_UNCHANGED_CODE = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ \S+ +/.*\n(?:[A-Z].*\n)*?Anonymous: +0 kB$", re.MULTILINE
)


def share_freed_memory() -> None:
    """Makes all threads of this process allocate from one pool, where the allocator is glibc's.

    By default threads have pools of their own. Batches are made in one thread and computed in others, so that each pool
    comes to hold what the others have freed: 50 MB in all.
    """
    mallopt = _of_linux("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def keep_no_pool_for_arrow() -> None:
    """Makes Arrow, if it isn't imported yet, allocate as the rest of the process; its own pool would take 25 MB."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def give_back_freed_memory() -> None:
    """Gives the free pages of the heap back to the system, where the allocator is glibc's.

    Batches leave holes between what stays, which the next one, of other sizes, fills in part only: 20 MB of them.
    """
    trim = _of_linux("malloc_trim")
    if trim is not None:
        trim(0)


def give_back_library_code() -> None:
    """Unmaps the code of libraries, of which 80 MB were needed only to import them, on Linux.

    What is needed again is mapped again when it is reached, mostly from the kernel's cache of the file. Nothing is
    unmapped that has been changed since it was mapped.
    """
    madvise = _of_linux("madvise")
    if madvise is None:
        return
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    mappings = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    for start, end in _UNCHANGED_CODE.findall(mappings):
        madvise(int(start, 16), int(end, 16) - int(start, 16), mmap.MADV_DONTNEED)


@cache
def _of_linux(name: str) -> Any:
    """A function of the C library, or None on another system or where the library lacks it."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
