"""Jobs for Dataflow: what reaches the service and the bucket, and what is refused before."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from jobs import runners
from jobs.dataflow.gpus import GpuConfig, GpuMode
from jobs.run_dump import DumpOptions, dataflow_request, submit_dump
from jobs.runners import RunnerConfig
from pipeline.config import Device, DumpConfig, EncodeConfig, StoreConfig
from pipeline.derivations import select_columns
from pipeline.errors import ConfigError, OutputInUseError
from pipeline.planning import Plan
from pipeline.reader import FeatureStore
from pipeline.storage import Folder
from pipeline.transforms import DumpJob, encode_and_commit
from support.cli import elmo
from support.dumping import write_corpus
from support.fake_dataflow import JOB_ID, FakeDataflow, fake_dataflow
from support.fakes import FakeEncoderFactory
from support.object_stores import gcs_store
from support.paths import GOLDEN

IMAGE = "--sdk_container_image=europe-west4-docker.pkg.dev/project/repository/elmo-features"
OWN_GPU = "--dataflow_service_options=worker_accelerator=type:x"
MACHINE = ("--machine_type=n1-standard-8", "--disk_size_gb=200")


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, str]]:
    with gcs_store() as (_, environment):
        yield environment


@pytest.fixture
def service(bucket: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDataflow]:
    for name, value in bucket.items():
        monkeypatch.setenv(name, value)
    with fake_dataflow() as fake:
        yield fake


@pytest.fixture
def out(request: pytest.FixtureRequest) -> str:
    return f"gs://bucket/{request.node.name.replace('[', '-').rstrip(']')}"


def options_of(*flags: str, gpu: GpuConfig | None = None, workers: int | None = None, **options: Any) -> DumpOptions:
    runner = RunnerConfig(runner="dataflow", workers=workers, options=flags, gpu=gpu)
    return DumpOptions(runner=runner, **options)


def submit(corpus: Path, out: str, options: DumpOptions, *, device: Device = "auto") -> str | None:
    config = DumpConfig(encode=EncodeConfig(device=device), store=StoreConfig(shard_tokens=20))
    return submit_dump([str(corpus)], out, encoder=FakeEncoderFactory(), config=config, options=options)


def staged_pipeline(job: dict[str, Any]) -> beam_runner_api_pb2.Pipeline:
    url = job["environment"]["sdkPipelineOptions"]["options"].get("pipelineUrl") or next(
        part for part in json.dumps(job).split('"') if part.endswith("pipeline.pb")
    )
    folder, _, name = url.replace("https://storage.googleapis.com/", "gs://").rpartition("/")
    pipeline = beam_runner_api_pb2.Pipeline()
    pipeline.ParseFromString(Folder(folder).read_bytes(name))
    return pipeline


def accelerators(pipeline: beam_runner_api_pb2.Pipeline) -> dict[str, str]:
    """The accelerator asked for by each step that asks for one."""
    environments = pipeline.components.environments
    return {
        step.unique_name: environments[step.environment_id].resource_hints["beam:resources:accelerator:v1"].decode()
        for step in pipeline.components.transforms.values()
        if "beam:resources:accelerator:v1" in environments[step.environment_id].resource_hints
    }


def test_a_job_is_submitted_and_holds_the_output_from_then_on(service: FakeDataflow, out: str, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", sentences=24)
    assert submit(corpus, out, options_of(*service.flags, IMAGE, *MACHINE, workers=3)) == JOB_ID
    (job,) = service.submitted()
    (pool,) = job["environment"]["workerPools"]
    assert pool["machineType"] == "n1-standard-8"
    assert pool["diskSizeGb"] == 200
    assert pool["numWorkers"] == 3 and pool["autoscalingSettings"]["maxNumWorkers"] == 3
    assert {image["containerImage"] for image in pool["sdkHarnessContainerImages"]} == {IMAGE.partition("=")[2]}
    assert not accelerators(staged_pipeline(job))
    assert len(Folder(out).list("tasks")) > 3
    with pytest.raises(OutputInUseError, match=rf"in use by job {JOB_ID}, submitted by process \d+.*--take-over"):
        submit(corpus, out, options_of(*service.flags, IMAGE))
    assert submit(corpus, out, options_of(*service.flags, IMAGE, take_over=True)) == JOB_ID
    assert Folder(out).list("locks") == ["locks/00002.json"]


def test_the_job_itself_completes_the_store_and_gives_the_output_back(
    service: FakeDataflow, out: str, tmp_path: Path
) -> None:
    corpus = write_corpus(tmp_path / "corpus", sentences=24)
    submit(corpus, out, options_of(*service.flags, IMAGE))
    assert Folder(out).list("locks")
    encoder, shards = FakeEncoderFactory(), Plan.read(Folder(out)).shards
    # What Dataflow's workers would be told, done here.
    job = DumpJob(
        output=out,
        encoder=encoder,
        selection=select_columns(encoder.describe().columns, "all"),
        encode=EncodeConfig(),
        store=StoreConfig(shard_tokens=20),
        max_failures=0,
        releases_claim=True,
    )
    pipeline = runners.beam_pipeline(RunnerConfig(), shards=len(shards))
    encode_and_commit(pipeline, job, [shard.number for shard in shards])
    runners.run(pipeline, RunnerConfig())
    assert len(FeatureStore.open(out)) == 24
    assert Folder(out).list("locks") == []
    assert submit(corpus, out, options_of(*service.flags, IMAGE)) is None


@pytest.mark.parametrize("mode", ["one-model", "mps", "right-fitting"])
def test_a_gpu_mode_reaches_the_service_as_it_is_meant(
    service: FakeDataflow, out: str, tmp_path: Path, mode: GpuMode
) -> None:
    corpus = write_corpus(tmp_path / "corpus", sentences=8)
    gpu = GpuConfig(accelerator="nvidia-l4", mode=mode)
    submit(corpus, out, options_of(*service.flags, IMAGE, *MACHINE, gpu=gpu), device="cuda")
    (job,) = service.submitted()
    asked = "type:nvidia-l4;count:1;install-nvidia-driver"
    services = job["environment"].get("serviceOptions", [])
    experiments = job["environment"]["experiments"]
    assert [option for option in services if option.startswith("worker_accelerator")] == {
        "one-model": [f"worker_accelerator={asked}"],
        "mps": [f"worker_accelerator={asked};use_nvidia_mps"],
        "right-fitting": [],
    }[mode]
    found = accelerators(staged_pipeline(job))
    if mode == "right-fitting":
        assert set(found.values()) == {asked}
        assert found and all("Encode" in step and "Commit" not in step for step in found)
        assert any(step.endswith("EncodeShards/Encode") for step in found)
    else:
        assert not found
    assert ("no_use_multiple_sdk_containers" in experiments) == (mode != "mps")
    assert ("use_multiple_sdk_containers" in experiments) == (mode == "mps")
    threads = job["environment"]["workerPools"][0].get("numThreadsPerWorker")
    assert threads == (None if mode == "mps" else 2)


def test_the_package_reaches_the_workers_by_its_setup_file(service: FakeDataflow, out: str, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "setup.py").write_text("from setuptools import setup\nsetup(name='it', version='1')\n")
    corpus = write_corpus(tmp_path / "corpus", sentences=8)
    submit(corpus, out, options_of(*service.flags, f"--setup_file={package}/setup.py"))
    (job,) = service.submitted()
    names = {file["name"] for file in job["environment"]["workerPools"][0]["packages"]}
    assert "workflow.tar.gz" in names
    assert "workflow.tar.gz" in {name.rpartition("/")[2] for name in Folder("gs://bucket/temp").walk()}


def test_fifty_thousand_shards_stay_far_below_the_limits_of_a_request(
    service: FakeDataflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = RunnerConfig(runner="dataflow", options=(*service.flags, IMAGE))
    pipeline = runners.beam_pipeline(runner, shards=50_000)
    encoder = FakeEncoderFactory()
    job = DumpJob(
        output="gs://bucket/out",
        encoder=encoder,
        selection=select_columns(encoder.describe().columns, "all"),
        encode=EncodeConfig(),
        store=StoreConfig(),
        max_failures=0,
    )
    encode_and_commit(pipeline, job, range(50_000))
    runners.submit(pipeline)
    (body,) = [body for method, path, body in service.requests if method == "POST" and path.endswith("/jobs")]
    assert len(body) < 100_000
    assert staged_pipeline(json.loads(body)).ByteSize() < 5_000_000


@pytest.mark.parametrize(
    ("flags", "gpu", "device", "problem"),
    [
        ((), None, "auto", "workers need this package"),
        ((IMAGE, "--setup_file=./setup.py"), None, "auto", "give one"),
        ((IMAGE, "--save_main_session"), None, "auto", "save_main_session is of no use"),
        ((IMAGE,), None, "cuda", "needs --gpu"),
        ((IMAGE,), "one-model", "cpu", "pay for a GPU and not use it"),
        (("--setup_file=./setup.py",), "one-model", "cuda", "needs --sdk_container_image"),
        ((IMAGE, "--experiments=no_use_multiple_sdk_containers"), "mps", "cuda", "mps excludes"),
        ((IMAGE, "--experiments=use_multiple_sdk_containers"), "one-model", "cuda", "one-model excludes"),
        (
            (IMAGE, "--dataflow_service_options=worker_accelerator=type:x"),
            "right-fitting",
            "cuda",
            "excludes the service",
        ),
        ((IMAGE, OWN_GPU), "mps", "cuda", "both ask for a GPU"),
        ((IMAGE, "--flexrs_goal=COST_OPTIMIZED"), "right-fitting", "cuda", "excludes --flexrs_goal"),
    ],
)
def test_contradictions_are_refused_before_anything_is_sent(
    service: FakeDataflow,
    out: str,
    tmp_path: Path,
    flags: tuple[str, ...],
    gpu: GpuMode | None,
    device: Device,
    problem: str,
) -> None:
    config = GpuConfig(accelerator="nvidia-l4", mode=gpu) if gpu else None
    with pytest.raises(ConfigError, match=problem):
        submit(
            write_corpus(tmp_path / "corpus", sentences=8),
            out,
            options_of(*service.flags, *flags, gpu=config),
            device=device,
        )
    assert service.requests == [] and Folder(out).top_level() == ()


def test_what_dataflow_cannot_reach_or_do_is_refused(service: FakeDataflow, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", sentences=8)
    with pytest.raises(ConfigError, match="on this machine"):
        submit(corpus, str(tmp_path / "out"), options_of(*service.flags, IMAGE))
    with pytest.raises(ConfigError, match="needs --project"):
        submit(corpus, "gs://bucket/x", options_of(IMAGE))
    with pytest.raises(ConfigError, match="for runner dataflow"):
        RunnerConfig(gpu=GpuConfig(accelerator="nvidia-l4"))
    with pytest.raises(ConfigError, match="no name of an accelerator"):
        GpuConfig(accelerator="nvidia l4;count:8")


def test_a_dry_run_prints_the_request_and_sends_and_writes_nothing(
    service: FakeDataflow, out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write_corpus(tmp_path / "corpus", sentences=24)
    arguments: list[str | Path] = [corpus, out, "--model", GOLDEN / "seeded" / "base", "--shard-tokens", "20"]
    beam = ["--", *service.flags, IMAGE, "--machine_type=n1-standard-8"]
    done = elmo(capsys, "submit", "dataflow", *arguments, "--dry-run", *beam)
    assert done.code == 0, done.err
    assert service.requests == [] and Folder(out).top_level() == ()
    request = json.loads(done.out[done.out.rindex("\n{\n") :])
    assert request["environment"]["workerPools"][0]["machineType"] == "n1-standard-8"

    done = elmo(capsys, "submit", "dataflow", *arguments, *beam)
    assert (done.code, done.out.strip()) == (0, JOB_ID), done.err
    (sent,) = service.submitted()
    assert sent["environment"]["workerPools"][0]["machineType"] == "n1-standard-8"
    done = elmo(capsys, "status", out)
    assert done.code == 0 and "not complete, 0/" in done.out


def test_the_request_of_a_dry_run_is_that_of_the_real_one(service: FakeDataflow, out: str, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", sentences=8)
    options = options_of(*service.flags, IMAGE, *MACHINE, gpu=GpuConfig(accelerator="nvidia-l4"))
    config = DumpConfig(encode=EncodeConfig(device="cuda"), store=StoreConfig(shard_tokens=20))
    dry = json.loads(dataflow_request([str(corpus)], out, encoder=FakeEncoderFactory(), config=config, options=options))
    submit(corpus, out, options, device="cuda")
    (sent,) = service.submitted()
    for key in ("workerPools", "experiments", "serviceOptions"):
        assert dry["environment"][key] == sent["environment"][key], key
