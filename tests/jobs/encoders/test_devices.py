"""Choosing a device, dealing GPUs to processes, and torch's errors in the pipeline's terms."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jobs.encoders.devices import available_device, translated_errors
from pipeline.errors import ConfigError, DeviceLostError, EncoderOutOfMemoryError

HOLD = """
from jobs.encoders.gpu_dealing import dealt_gpu
print(dealt_gpu({count}), dealt_gpu({count}), flush=True)
input()
"""


def start(folder: Path, count: int, **environment: str) -> tuple[subprocess.Popen[str], int]:
    """A process that takes one of so many GPUs and keeps it until it is told to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(count=count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder), **environment},
    )
    assert process.stdout is not None
    first, second = process.stdout.readline().split()
    assert first == second
    return process, int(first)


def test_processes_are_dealt_the_gpu_with_the_fewest(tmp_path: Path) -> None:
    processes = [start(tmp_path, 2) for _ in range(4)]
    try:
        assert [gpu for _, gpu in processes] == [0, 1, 0, 1]
        elsewhere = start(tmp_path, 2, CUDA_VISIBLE_DEVICES="2,3")
        processes.append(elsewhere)
        assert elsewhere[1] == 0
        killed, gpu = processes[1]
        killed.kill()
        killed.wait()
        again = start(tmp_path, 2)
        processes.append(again)
        assert again[1] == gpu == 1
    finally:
        for process, _ in processes:
            process.kill()
            process.communicate()


def test_cuda_is_refused_where_it_cannot_be_used_and_never_becomes_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="finds no usable CUDA device"):
        available_device("cuda")
    assert available_device("auto") == available_device("cpu") == "cpu"


@pytest.mark.parametrize(("gpus", "device"), [(1, "cuda"), (2, "cuda:0")])
def test_several_gpus_are_dealt_and_a_single_one_is_not_numbered(
    gpus: int, device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert available_device("cuda") == available_device("auto") == device
    assert available_device("cpu") == "cpu"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), EncoderOutOfMemoryError),
        (MemoryError(), EncoderOutOfMemoryError),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes"), EncoderOutOfMemoryError),
        (torch.AcceleratorError("CUDA error: an illegal memory access was encountered", 700), DeviceLostError),
        (RuntimeError("CUDA error: device-side assert triggered\nmore"), DeviceLostError),
        (RuntimeError("shapes differ"), RuntimeError),
    ],
)
def test_errors_of_torch_are_told_apart(raised: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected) as found, translated_errors():
        raise raised
    assert type(found.value) is expected
