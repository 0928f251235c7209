"""The process that has started a job on a cluster is killed: what is there can be gone on from."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from jobs.runners import Runner, RunnerConfig
from pipeline.schema import MANIFEST
from support.clusters import SUBPROCESS, dask_cluster, job_service
from support.dumping import fake_dump, lasting_files
from support.fakes import FakeEncoderFactory
from support.paths import TESTS

DRIVER = """
import sys
from pathlib import Path
from jobs.runners import RunnerConfig
from support.dumping import fake_dump
from support.fakes import FakeEncoderFactory

if __name__ == "__main__":
    runner = RunnerConfig(runner=sys.argv[3], options=tuple(sys.argv[4:]))
    fake_dump(Path(sys.argv[1]), sys.argv[2], runner=runner, encoder=FakeEncoderFactory(seconds=0.3))
"""
CLUSTERS: dict[Runner, tuple[Callable[[Path], AbstractContextManager[str]], str, Sequence[str]]] = {
    "dask": (dask_cluster, "--dask_client_address", ()),
    "portable": (job_service, "--job_endpoint", SUBPROCESS),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_rerun_finishes_what_a_killed_driver_has_begun(name: Runner, corpus: Path, tmp_path: Path) -> None:
    fake_dump(corpus, tmp_path / "expected")
    cluster, address_option, more = CLUSTERS[name]
    out = tmp_path / "out"
    with cluster(tmp_path) as address:
        command = [sys.executable, "-c", DRIVER, str(corpus), str(out), name, f"{address_option}={address}", *more]
        driver = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(TESTS)})
        deadline = time.monotonic() + 60
        while not list(out.glob("receipts/[!.]*")):
            assert driver.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        driver.kill()
        driver.wait()
    assert not (out / MANIFEST).exists()
    with cluster(tmp_path) as address:
        runner = RunnerConfig(runner=name, options=(f"{address_option}={address}", *more))
        fake_dump(corpus, out, runner=runner, encoder=FakeEncoderFactory())
    assert lasting_files(out) == lasting_files(tmp_path / "expected")
