"""Flink and Prism, which need a program that no package index has; each leg runs where that is given.

ELMO_FLINK_JOB_SERVER_JAR is Beam's job server for Flink 2.2 (`org.apache.beam:beam-runners-flink-2.2-job-server` of the
version of Beam that is installed); it also needs `java` and the package apache-flink-libraries of the same minor
version. ELMO_PRISM is Beam's Prism (`go install github.com/apache/beam/sdks/v2/go/cmd/prism@vVERSION`).
"""

import os
import shutil
import sys
from contextlib import ExitStack
from importlib import util
from pathlib import Path

import pytest

from jobs.runners import RunnerConfig
from support.clusters import running, wait_for, worker_pool
from support.dumping import fake_dump, lasting_files

JAR = os.environ.get("ELMO_FLINK_JOB_SERVER_JAR")
PRISM = os.environ.get("ELMO_PRISM")
FLINK = util.find_spec("pyflink")
OPENED = [
    f"--add-opens=java.base/java.{package}=ALL-UNNAMED"
    for package in ("lang", "util", "util.concurrent", "nio", "net", "io", "lang.reflect", "time")
]


@pytest.mark.skipif(PRISM is None, reason="ELMO_PRISM names no Prism binary")
def test_prism_gives_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    fake_dump(corpus, tmp_path / "expected")
    log = tmp_path / "prism.log"
    with (
        running(str(PRISM), "--job_port=8073", "--serve_http=false", log=log),
        worker_pool(tmp_path) as pool,
    ):
        wait_for(r"(8073)", log)
        environment = ("--environment_type=EXTERNAL", f"--environment_config={pool}")
        runner = RunnerConfig(runner="portable", options=("--job_endpoint=localhost:8073", *environment))
        fake_dump(corpus, tmp_path / "out", runner=runner)
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "expected")


@pytest.mark.skipif(JAR is None, reason="ELMO_FLINK_JOB_SERVER_JAR names no job server")
@pytest.mark.skipif(FLINK is None, reason="apache-flink-libraries is not installed")
@pytest.mark.skipif(shutil.which("java") is None, reason="there is no java")
def test_flink_with_two_task_managers_gives_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    assert FLINK is not None and FLINK.origin is not None
    fake_dump(corpus, tmp_path / "expected")
    libraries = Path(FLINK.origin).parent / "lib"
    flink = ["java", *OPENED, "-Xmx512m", "-cp", f"{libraries}/*"]
    settings = [
        "-Djobmanager.rpc.address=127.0.0.1",
        "-Djobmanager.rpc.port=6123",
        "-Drest.port=8081",
        "-Dtaskmanager.host=127.0.0.1",
        "-Dtaskmanager.numberOfTaskSlots=1",
        "-Dtaskmanager.cpu.cores=1",
        "-Dtaskmanager.memory.task.heap.size=256m",
        "-Dtaskmanager.memory.task.off-heap.size=0",
        "-Dtaskmanager.memory.managed.size=128m",
        "-Dtaskmanager.memory.network.min=64m",
        "-Dtaskmanager.memory.network.max=64m",
    ]
    configuration = tmp_path / "conf"
    configuration.mkdir()
    (configuration / "config.yaml").write_text("")
    cluster = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
    worker = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
    boot = tmp_path / "elmo-worker"
    boot.write_text(f'#!/bin/sh\nexec {sys.executable} -m jobs.worker_boot "$@"\n')
    boot.chmod(0o755)
    with ExitStack() as stack:
        log = tmp_path / "job_manager.log"
        stack.enter_context(running(*flink, cluster, "--configDir", configuration, *settings, log=log))
        for number in range(2):
            log = tmp_path / f"task_manager{number}.log"
            stack.enter_context(running(*flink, worker, "--configDir", configuration, *settings, log=log))
        log = tmp_path / "job_server.log"
        ports = ["--job-port", "8099", "--artifact-port", "8098", "--expansion-port", "0"]
        master: list[str | Path] = ["--flink-master", "127.0.0.1:8081", "--artifacts-dir", tmp_path / "artifacts"]
        stack.enter_context(running("java", *OPENED, "-jar", str(JAR), *master, *ports, log=log))
        wait_for(r"JobService started on \S+(8099)", log, seconds=120)
        environment = ("--environment_type=PROCESS", f"--environment_options=process_command={boot}")
        options = ("--job_endpoint=localhost:8099", "--parallelism=2", "--sdk_worker_parallelism=1", *environment)
        fake_dump(corpus, tmp_path / "out", runner=RunnerConfig(runner="portable", options=options))
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "expected")
