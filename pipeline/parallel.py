"""Waiting for many small requests at once."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from pipeline.storage import Folder

# Enough that a request's tens of milliseconds do not add up; a local disk has no such wait.
_REMOTE_REQUESTS = 32


Item = TypeVar("Item")
Result = TypeVar("Result")


def for_each(folder: Folder, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """What a function that reads from a folder gives for each item, in order; many at once where that is remote."""
    if folder.is_local:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(_REMOTE_REQUESTS) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) == _REMOTE_REQUESTS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
