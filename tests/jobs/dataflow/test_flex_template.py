"""The Flex Template: its metadata, its launcher and its image."""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from google.cloud import dataflow_v1beta3 as dataflow

from jobs.cli import main
from jobs.dataflow.flex_template import METADATA, submit_arguments
from jobs.dump import dump
from support.dumping import write_corpus
from support.fake_dataflow import fake_dataflow
from support.object_stores import gcs_store
from support.paths import GOLDEN

DOCKERFILE = METADATA.with_name("Dockerfile").read_text(encoding="utf-8")


def test_the_metadata_is_what_dataflow_takes_and_names_real_options() -> None:
    metadata = json.loads(METADATA.read_text(encoding="utf-8"))
    spec = {
        "image": "europe-west4-docker.pkg.dev/project/repository/elmo-features",
        "sdkInfo": {"language": "PYTHON"},
        "metadata": metadata,
    }
    parsed = dataflow.ContainerSpec.from_json(json.dumps(spec))
    assert [parameter.name for parameter in parsed.metadata.parameters][:2] == ["inputs", "output"]
    assert [parameter.is_optional for parameter in parsed.metadata.parameters][:2] == [False, False]
    options = {option for parameter in dump.params for option in parameter.opts}
    for parameter in metadata["parameters"]:
        assert parameter["name"] in options or f"--{parameter['name'].replace('_', '-')}" in options


def test_the_launcher_passes_parameters_on_and_leaves_the_rest_to_beam() -> None:
    arguments = submit_arguments(
        [
            "--inputs=gs://b/one,gs://b/two",
            "--output=gs://b/out",
            "--shard_tokens=5000",
            "--layers=0,2",
            "--gpu=",
            "--take_over=true",
            "--runner=DataflowRunner",
            "--project=p",
            "--template_location=gs://b/job",
        ]
    )
    own, beam = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    assert own[:5] == ["submit", "dataflow", "gs://b/one", "gs://b/two", "gs://b/out"]
    assert sorted(own[5:]) == ["--layers=0,2", "--shard-tokens=5000", "--take-over"]
    assert beam == ["--project=p", "--template_location=gs://b/job"]


@pytest.mark.parametrize("arguments", [["--inputs=gs://b/a"], ["--output=x"], ["gs://b", "--inputs=a", "--output=b"]])
def test_what_the_launcher_cannot_use_is_refused(arguments: list[str]) -> None:
    with pytest.raises(ValueError, match=r"missing|does not look like"):
        submit_arguments(arguments)


@pytest.fixture
def corpus_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    from pipeline.storage import Folder  # noqa: PLC0415

    with gcs_store() as (_, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        for path in write_corpus(tmp_path / "corpus", sentences=8).iterdir():
            Folder("gs://bucket/corpus").write_bytes(path.name, path.read_bytes())
        yield "gs://bucket/corpus"


def test_a_launch_submits_the_job(corpus_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_dataflow() as service:
        launched = [
            f"--inputs={corpus_url}",
            "--output=gs://bucket/out",
            f"--model={GOLDEN / 'seeded' / 'base'}",
            "--runner=DataflowRunner",
            "--sdk_container_image=image",
            *service.flags,
        ]
        with pytest.raises(SystemExit) as ended:
            main(submit_arguments(launched))
        assert ended.value.code == 0, capsys.readouterr().err
        assert len(service.submitted()) == 1


def test_the_image_fits_what_submits() -> None:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    beam, base = re.findall(r"^FROM (\S+?)(?: AS \w+)?$", DOCKERFILE, flags=re.MULTILINE)[::2]
    assert beam == f"apache/beam_python{python}_sdk:{version('apache-beam')}"
    assert base == f"python:{python}-slim"
    assert re.search(r'^ENTRYPOINT \["/opt/apache/beam/boot"\]$', DOCKERFILE, flags=re.MULTILINE)
    assert "--constraint constraints.txt" in DOCKERFILE and "pip check" in DOCKERFILE
    template = re.search(r"^ENV FLEX_TEMPLATE_PYTHON_PY_FILE=/template/(\S+)$", DOCKERFILE, flags=re.MULTILINE)
    assert template is not None and METADATA.with_name(template[1]).is_file()
