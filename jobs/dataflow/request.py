"""The request that submits a job to Dataflow, made without sending or staging anything."""

from typing import Any

from apache_beam.options.pipeline_options import GoogleCloudOptions, TestOptions
from apache_beam.runners.dataflow.internal.apiclient import DataflowApplicationClient


class _OfflineClient(DataflowApplicationClient):  # type: ignore[misc]
    """Beam's own client, which uploads nothing."""

    def _stage_resources(self, pipeline: Any, options: Any) -> list[Any]:
        return []

    def stage_file_with_retry(self, *args: Any, **kwargs: Any) -> None:
        pass


def request_json(pipeline: Any) -> str:
    """The body of the request that running this pipeline on Dataflow would send, as JSON.

    What is staged beside it, and has its name only then, is left out.
    """
    options = pipeline.options
    test, cloud = options.view_as(TestOptions), options.view_as(GoogleCloudOptions)
    no_auth = cloud.no_auth
    test.dry_run = True
    try:
        job = pipeline.run().job
    finally:
        test.dry_run = False
    cloud.no_auth = True  # no question is asked of Google here
    client = _OfflineClient(options, job.root_staging_location)
    cloud.no_auth = no_auth
    client.create_job_description(job)
    return str(job.json())
