"""The local runner: its modes, workers that die, and signals."""

import signal
import time
from pathlib import Path

import psutil
import pytest

from jobs.runners import RunnerConfig
from pipeline.errors import ConfigError, WorkerLostError
from pipeline.schema import MANIFEST
from support.cli import elmo
from support.dumping import fake_dump, lasting_files, start_fake_dump, wait_for_receipts
from support.fakes import FakeEncoderFactory
from support.paths import GOLDEN

MODES = ("in_memory", "multi_threading", "multi_processing")


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_the_same_bytes_with_one_model_a_process(corpus: Path, tmp_path: Path, mode: str) -> None:
    fake_dump(corpus, tmp_path / "expected")
    log = tmp_path / "loads"
    runner = RunnerConfig(options=(f"--direct_running_mode={mode}", "--direct_num_workers=2"))
    fake_dump(corpus, tmp_path / "out", runner=runner, encoder=FakeEncoderFactory(load_log=str(log)))
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "expected")
    processes = 2 if mode == "multi_processing" else 1
    assert 1 <= len(log.read_text().splitlines()) <= processes


def test_a_worker_that_is_killed_ends_the_job_and_the_rerun_finishes_it(corpus: Path, tmp_path: Path) -> None:
    with (corpus / "b.txt").open("a") as file:
        file.write("KILL me\n")
    marker = str(tmp_path / "killed")
    fake_dump(corpus, tmp_path / "expected")
    started = time.monotonic()
    with pytest.raises(WorkerLostError, match=r"worker process \d+ was killed by signal 9; .*run again"):
        fake_dump(corpus, tmp_path / "out", workers=2, encoder=FakeEncoderFactory(kill_marker=marker))
    assert time.monotonic() - started < 30
    assert not (tmp_path / "out" / MANIFEST).exists()
    fake_dump(corpus, tmp_path / "out", workers=2, encoder=FakeEncoderFactory(kill_marker=marker))
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "expected")


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_a_signal_ends_the_job_at_once_and_says_how_to_go_on(
    corpus: Path, tmp_path: Path, number: signal.Signals, workers: int
) -> None:
    out = tmp_path / "out"
    job = start_fake_dump(corpus, out, workers=workers, seconds=0.2)
    wait_for_receipts(out)
    children = psutil.Process(job.pid).children(recursive=True)
    job.send_signal(number)
    started = time.monotonic()
    _, errors = job.communicate(timeout=60)
    assert time.monotonic() - started < 10
    assert job.returncode == 128 + number
    assert errors.splitlines()[-1] == f"elmo: stopped by {number.name}; run the same command again to go on with {out}"
    assert "Traceback" not in errors
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    assert not (out / "lock.json").exists()
    if workers == 1:
        assert not list(out.rglob(".tmp-*"))
    finished = set((out / "receipts").iterdir())
    assert finished and not (out / MANIFEST).exists()
    fake_dump(corpus, tmp_path / "expected")
    fake_dump(corpus, out)
    assert lasting_files(out) == lasting_files(tmp_path / "expected")


def test_a_driver_that_is_killed_takes_its_workers_along_and_can_be_resumed(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = start_fake_dump(corpus, out, workers=2, seconds=0.2)
    wait_for_receipts(out)
    children = psutil.Process(job.pid).children(recursive=True)
    job.kill()
    job.communicate(timeout=60)
    fake_dump(corpus, tmp_path / "expected")
    fake_dump(corpus, out)
    assert lasting_files(out) == lasting_files(tmp_path / "expected")
    assert len(children) == 2
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


@pytest.mark.parametrize(
    ("runner", "problem"),
    [
        ({"workers": 0}, "below 1"),
        ({"runner": "portable"}, "needs --job_endpoint"),
        ({"runner": "dask"}, "needs --dask_client_address"),
        ({"runner": "flink"}, "needs --flink_master"),
        ({"runner": "spark"}, "needs --spark_master_url"),
        ({"runner": "spark", "workers": 3}, "takes no number of workers"),
        ({"options": ("--direct_runing_mode=x",)}, "no option --direct_runing_mode"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_touched(
    corpus: Path, tmp_path: Path, runner: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        fake_dump(corpus, tmp_path / "out", runner=RunnerConfig(**runner))  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_options_of_beam_follow_after_two_dashes(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments: list[str | Path] = ["dump", corpus, tmp_path / "out", "--model", GOLDEN / "seeded" / "base"]
    done = elmo(capsys, *arguments, "--", "--direct_running_mode=sideways")
    assert done.code == 2 and "direct_running_mode" in done.err and not (tmp_path / "out").exists()
    done = elmo(capsys, *arguments, "--", "--direct_running_mode=multi_threading", "--direct_num_workers=2")
    assert done.code == 0, done.err
    done = elmo(capsys, *arguments, "--runner", "dask")
    assert done.code == 2 and "-- --dask_client_address=..." in done.err
