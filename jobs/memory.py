"""Memory of a dump on this machine: what is freed, or not needed any more, doesn't stay with a part of it."""

import ctypes
import mmap
import os
import re
import sys
from pathlib import Path

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
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def keep_no_pool_for_arrow() -> None:
    """Makes Arrow, if it isn't imported yet, allocate as the rest of the process; its own pool would take 25 MB."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def give_back_what_loading_took() -> None:
    """Gives back memory that importing libraries and reading a model took and that is free now, 100 MB, on Linux.

    That is the heap's free pages, and the code of libraries: what is needed again of it is mapped again when it is
    reached, mostly from the kernel's cache of the file. Nothing is unmapped that has been changed since it was mapped.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # of glibc
        library.malloc_trim(0)
    madvise = library.madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    mappings = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    for start, end in _UNCHANGED_CODE.findall(mappings):
        madvise(int(start, 16), int(end, 16) - int(start, 16), mmap.MADV_DONTNEED)
