"""Work on several threads."""

import threading
from collections.abc import Iterator

import pytest
import torch

from elmo_model.pretraining.workers import in_parallel

CPU = torch.device("cpu")


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_parts_meet_on_two_threads_and_results_keep_their_order() -> None:
    barrier = threading.Barrier(2, timeout=60)  # passed only by two threads at once

    def work(part: int) -> tuple[int, int]:
        barrier.wait()
        return part, torch.get_num_threads()

    assert in_parallel(work, range(4), device=CPU) == [(part, 1) for part in range(4)]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_a_part_is_raised() -> None:
    def work(part: int) -> int:
        raise ValueError(f"part {part}")

    with pytest.raises(ValueError, match="part 0"):
        in_parallel(work, range(2), device=CPU)
