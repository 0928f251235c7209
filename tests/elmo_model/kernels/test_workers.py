import threading

import pytest
import torch

from elmo_model.kernels.workers import Workers


def test_each_worker_computes_alone_and_the_setting_outside_stays() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        workers = Workers(2)
        assert workers.map(lambda _: torch.get_num_threads(), range(4)) == [1] * 4
        assert torch.get_num_threads() == 2
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert found == [2]
    finally:
        torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_tasks_from_several_threads() -> None:
    workers = Workers(3)
    meeting = threading.Barrier(3)

    def task(number: int) -> tuple[int, str]:
        meeting.wait(timeout=30)
        return number, threading.current_thread().name

    found = workers.map(task, range(3))
    assert [number for number, _ in found] == [0, 1, 2]
    assert len({name for _, name in found}) == 3


def test_an_error_in_a_task_reaches_the_caller() -> None:
    def fail(number: int) -> None:
        raise MemoryError(f"task {number}")

    with pytest.raises(MemoryError, match="task 0"):
        Workers(2).map(fail, range(2))


def test_no_gradients_are_recorded() -> None:
    weight = torch.ones(2, requires_grad=True)
    (found,) = Workers(1).map(lambda rows: rows * weight, [torch.ones(2)])
    assert not found.requires_grad
