"""`elmo-worker`: starts a Beam worker as the boot program of Beam's containers would, without a container.

For portable runners with `--environment_type=PROCESS`, and for worker pools with `--container_executable`. Where a
worker runs this package and its dependencies are installed already, so nothing is staged or installed.
"""

import argparse
import os

import grpc
from apache_beam.portability.api import (
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    endpoints_pb2,
)
from google.protobuf import json_format, text_format

_PROVISION_SECONDS = 60


def main(arguments: list[str] | None = None) -> None:
    """Asks the runner what it wants and serves it until it closes the connection."""
    parser = argparse.ArgumentParser(prog="elmo-worker", description=__doc__)
    parser.add_argument("--id", required=True, help="of this worker")
    parser.add_argument("--provision_endpoint", required=True)
    parser.add_argument("--control_endpoint", help="only if the runner does not say it itself")
    parser.add_argument("--logging_endpoint", help="only if the runner does not say it itself")
    parser.add_argument("--artifact_endpoint", help="not used: there is nothing to install")
    given = parser.parse_args(arguments)
    provided = _provision_info(given.provision_endpoint, given.id)
    os.environ |= {
        "WORKER_ID": given.id,
        "PIPELINE_OPTIONS": json_format.MessageToJson(provided.pipeline_options),
        "RUNNER_CAPABILITIES": " ".join(provided.runner_capabilities),
        "CONTROL_API_SERVICE_DESCRIPTOR": _descriptor(provided.control_endpoint, given.control_endpoint),
        "LOGGING_API_SERVICE_DESCRIPTOR": _descriptor(provided.logging_endpoint, given.logging_endpoint),
    }
    from apache_beam.runners.worker import sdk_worker_main  # noqa: PLC0415 - some of it reads the environment

    sdk_worker_main.main([])


def _provision_info(endpoint: str, worker_id: str) -> beam_provision_api_pb2.ProvisionInfo:
    with grpc.insecure_channel(endpoint) as channel:
        grpc.channel_ready_future(channel).result(timeout=_PROVISION_SECONDS)
        service = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        return service.GetProvisionInfo(request, metadata=[("worker_id", worker_id)]).info


def _descriptor(provided: endpoints_pb2.ApiServiceDescriptor, given: str | None) -> str:
    endpoint = provided if provided.url else endpoints_pb2.ApiServiceDescriptor(url=given)
    return str(text_format.MessageToString(endpoint))


if __name__ == "__main__":
    main()
