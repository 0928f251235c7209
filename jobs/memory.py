"""Memory of a dump on this machine: what one thread frees another one uses."""

import ctypes
import sys

import pyarrow as pa

_M_ARENA_MAX = -8  # a parameter of glibc's mallopt


def share_freed_memory() -> None:
    """Makes all threads of this process, and Arrow, allocate from one pool, where the allocator is glibc's.

    By default threads have pools of their own, and Arrow keeps another beside them. Batches are made in one thread,
    computed in others and written by Arrow, so that each pool comes to hold what the others have freed: 75 MB in all.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
