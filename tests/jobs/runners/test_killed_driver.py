"""The process that has started a job on a cluster is killed: what is there can be gone on from."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from jobs.runners import Runner, RunnerConfig
from pipeline.schema import MANIFEST
from support.clusters import SUBPROCESS, dask_cluster, job_service
from support.dumping import fake_dump, lasting_files, start_fake_dump, wait_for_receipts

CLUSTERS: dict[Runner, tuple[Callable[[Path], AbstractContextManager[str]], str, Sequence[str]]] = {
    "dask": (dask_cluster, "--dask_client_address", ()),
    "portable": (job_service, "--job_endpoint", SUBPROCESS),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_rerun_finishes_what_a_killed_driver_has_begun(name: Runner, corpus: Path, tmp_path: Path) -> None:
    fake_dump(corpus, tmp_path / "expected")
    cluster, address_option, more = CLUSTERS[name]
    out = tmp_path / "out"

    def runner_at(address: str) -> RunnerConfig:
        return RunnerConfig(runner=name, options=(f"{address_option}={address}", *more))

    with cluster(tmp_path) as address:
        driver = start_fake_dump(corpus, out, seconds=0.3, runner=runner_at(address))
        wait_for_receipts(out)
        assert driver.poll() is None
        driver.kill()
        driver.communicate()
    assert not (out / MANIFEST).exists()
    with cluster(tmp_path) as address:
        fake_dump(corpus, out, runner=runner_at(address))
    assert lasting_files(out) == lasting_files(tmp_path / "expected")
