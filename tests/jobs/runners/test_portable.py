"""The portable runner against Beam's own job service."""

from pathlib import Path

import pytest

from jobs.runners import RunnerConfig
from pipeline.errors import PipelineError
from pipeline.schema import MANIFEST
from support.clusters import SUBPROCESS, job_service, worker_pool
from support.dumping import fake_dump, lasting_files
from support.fakes import FakeEncoderFactory


def test_worker_processes_of_a_job_service_give_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    fake_dump(corpus, tmp_path / "expected")
    with job_service(tmp_path) as address:
        runner = RunnerConfig(runner="portable", options=(f"--job_endpoint={address}", *SUBPROCESS))
        fake_dump(corpus, tmp_path / "out", runner=runner)
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "expected")


def test_workers_of_a_pool_started_without_a_container_give_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    fake_dump(corpus, tmp_path / "expected")
    with job_service(tmp_path) as address, worker_pool(tmp_path) as pool:
        environment = ("--environment_type=EXTERNAL", f"--environment_config={pool}")
        runner = RunnerConfig(runner="portable", options=(f"--job_endpoint={address}", *environment))
        log = tmp_path / "loads"
        fake_dump(corpus, tmp_path / "out", runner=runner, encoder=FakeEncoderFactory(load_log=str(log)))
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "expected")
    assert log.read_text() == "loaded\n"


def test_an_error_of_a_worker_arrives_as_what_it_was(corpus: Path, tmp_path: Path) -> None:
    (corpus / "c.txt").write_text("it is GONE\n")
    with job_service(tmp_path) as address:
        runner = RunnerConfig(runner="portable", options=(f"--job_endpoint={address}", *SUBPROCESS))
        with pytest.raises(PipelineError, match=r"at sentence '\w.txt:\d+': the device is gone"):
            fake_dump(corpus, tmp_path / "out", runner=runner)


def test_a_killed_worker_of_a_job_service_ends_the_job_and_the_rerun_finishes_it(corpus: Path, tmp_path: Path) -> None:
    (corpus / "c.txt").write_text("KILL the worker\n")
    marker = str(tmp_path / "killed")
    fake_dump(corpus, tmp_path / "expected", encoder=FakeEncoderFactory(kill_marker=_happened(tmp_path / "before")))
    with job_service(tmp_path) as address:
        runner = RunnerConfig(runner="portable", options=(f"--job_endpoint={address}", *SUBPROCESS))
        with pytest.raises((PipelineError, RuntimeError)):
            fake_dump(corpus, tmp_path / "out", runner=runner, encoder=FakeEncoderFactory(kill_marker=marker))
        assert not (tmp_path / "out" / MANIFEST).exists()
        fake_dump(corpus, tmp_path / "out", runner=runner, encoder=FakeEncoderFactory(kill_marker=marker))
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "expected")


def _happened(marker: Path) -> str:
    """A marker that says that the kill is over."""
    Path(f"{marker}-KILL").touch()
    return str(marker)
