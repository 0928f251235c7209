"""Worker processes on this machine that are watched: if one dies, the job ends with an error instead of hanging.

Beam's own handler starts a worker through a shell and forgets it. When such a worker is killed, for example for want of
memory, Beam 2.77 waits for its answer for ever.
"""

import os
import subprocess
import sys
import threading
import time
from typing import Any, ClassVar

from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner.worker_handlers import GrpcWorkerHandler, WorkerHandler
from google.protobuf import json_format, text_format

from pipeline.errors import WorkerLostError

# What a worker is given to end by itself once its work is done.
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.1


@WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)  # type: ignore[untyped-decorator, unused-ignore]
class WatchedWorkerHandler(GrpcWorkerHandler):  # type: ignore[misc]
    """One worker process. Importing this module makes it the way in which Beam starts workers in this process."""

    # Of the latest job in this process.
    all: ClassVar[list["WatchedWorkerHandler"]] = []

    def __init__(self, payload: bytes, state: Any, provision_info: Any, grpc_server: Any) -> None:
        super().__init__(state, provision_info, grpc_server)
        # What Beam asks for is a command line for a shell; run without one, the process can be watched and ended.
        del payload
        self._process: subprocess.Popen[bytes]
        self._ending = False
        self._killed = False

    def start_worker(self) -> None:
        """Starts the process and a thread that waits for its end."""
        options = json_format.MessageToJson(self.provision_info.provision_info.pipeline_options)
        environment = os.environ | {
            "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(self.control_api_service_descriptor()),
            "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(self.logging_api_service_descriptor()),
            "PIPELINE_OPTIONS": options,
            "WORKER_ID": self.worker_id,
        }
        command = [sys.executable, "-m", "apache_beam.runners.worker.sdk_worker_main"]
        # In a group of its own, so that Ctrl-C reaches this process alone, which then ends the workers.
        self._process = subprocess.Popen(command, env=environment, process_group=0)
        self.all.append(self)
        threading.Thread(target=self._watch, name=f"watch {self.worker_id}", daemon=True).start()

    def stop_worker(self) -> None:
        """Waits for the process, which ends when its connection is closed; kills one that does not."""
        self._ending = True
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()

    def _watch(self) -> None:
        self._process.wait()
        while not self._ending:
            # Answers in the place of those that will never come, now and for what is still asked.
            for identifier, future in list(self.control_conn._futures_by_id.items()):
                future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=identifier, error="the worker died"))
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """Kills the process, if it still runs."""
        self._killed = self._process.poll() is None
        self._process.kill()

    def loss(self) -> str | None:
        """How the process died, in words; None for one that runs, ended in order, or was killed here."""
        code = self._process.poll()
        if not code or self._killed:
            return None
        return f"worker process {self._process.pid} " + (
            f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        )


def begin_job() -> None:
    """Forgets the workers of the job before."""
    WatchedWorkerHandler.all.clear()


def kill_workers() -> None:
    """Kills the worker processes of the job that runs here, which then ends with an error."""
    for handler in WatchedWorkerHandler.all:
        handler.kill()


def lost_worker() -> WorkerLostError | None:
    """The error of the first worker of the latest job that died; None if none did."""
    losses = [loss for handler in WatchedWorkerHandler.all if (loss := handler.loss())]
    if not losses:
        return None
    advice = "what is finished is kept; if memory ran out, run again with fewer workers or smaller batches"
    return WorkerLostError(f"{losses[0]}; {advice}")
