"""Real runners on loopback, each started for a test and gone after it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Options of the portable runner: each worker is a process that the job service starts.
SUBPROCESS = (
    "--environment_type=beam:env:harness_subprocess_python:v1",
    f"--environment_config={sys.executable} -m apache_beam.runners.worker.sdk_worker_main",
)


@contextmanager
def running(
    *command: str | Path, log: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes to a log and is killed at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(pattern: str, log: Path, *, seconds: float = 60) -> str:
    """Waits until a line of a log matches; the first group of the match."""
    deadline = time.monotonic() + seconds
    while not (found := re.search(pattern, log.read_text(errors="replace"))):
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.05)
    return found[1]


@contextmanager
def job_service(folder: Path) -> Iterator[str]:
    """Beam's own job service of Python; its address."""
    port_file, log = folder / "port", folder / "job_service.log"
    module = "apache_beam.runners.portability.local_job_service_main"
    arguments: list[str | Path] = ["--port", "0", "--port_file", port_file, "--staging_dir", folder / "staged"]
    with running(sys.executable, "-m", module, *arguments, log=log):
        deadline = time.monotonic() + 60
        while not port_file.exists():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield f"localhost:{port_file.read_text()}"


@contextmanager
def worker_pool(folder: Path) -> Iterator[str]:
    """A pool that starts workers by `elmo-worker`, listening on loopback alone; its address."""
    boot = folder / "boot"
    boot.write_text(f'#!/bin/sh\nexec {sys.executable} -m jobs.worker_boot "$@"\n')
    boot.chmod(0o755)
    import grpc  # noqa: PLC0415
    from apache_beam.portability.api import beam_fn_api_pb2_grpc  # noqa: PLC0415
    from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer  # noqa: PLC0415
    from apache_beam.utils.thread_pool_executor import shared_unbounded_instance  # noqa: PLC0415

    server = grpc.server(shared_unbounded_instance())
    port = server.add_insecure_port("127.0.0.1:0")
    pool = BeamFnExternalWorkerPoolServicer(use_process=True, container_executable=str(boot))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        for process in pool._worker_processes.values():
            process.kill()
            process.wait()
        server.stop(0)


@contextmanager
def dask_cluster(folder: Path, *, workers: int = 2) -> Iterator[str]:
    """A Dask scheduler and workers, each process with a nanny that starts it anew when it dies; the address."""
    log = folder / "scheduler.log"
    common = ["--host", "127.0.0.1", "--no-dashboard"]
    with running(sys.executable, "-m", "distributed.cli.dask_scheduler", *common, "--port", "0", log=log):
        address = wait_for(r"Scheduler at: +(tcp://\S+)", log)
        arguments: list[str | Path] = [
            "--nworkers",
            str(workers),
            "--nthreads",
            "1",
            "--local-directory",
            folder / "spill",
        ]
        worker_log = folder / "workers.log"
        module = "distributed.cli.dask_worker"
        with running(sys.executable, "-m", module, address, *common, *arguments, log=worker_log):
            wait_for(r"(Registered to: +tcp://\S+)(?s:.*)Registered to", worker_log)
            yield address
