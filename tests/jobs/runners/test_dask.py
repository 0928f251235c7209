"""The Dask runner on a scheduler and two worker processes."""

from pathlib import Path

import apache_beam as beam
import pytest

from jobs.runners import RunnerConfig, beam_pipeline, run
from pipeline.config import EncodeConfig
from pipeline.errors import ConfigError
from support.clusters import dask_cluster
from support.dumping import fake_dump, lasting_files
from support.fakes import FakeEncoderFactory


def fake(marker: Path, *happened: str) -> FakeEncoderFactory:
    for token in happened:
        Path(f"{marker}-{token}").touch()
    return FakeEncoderFactory(kill_marker=str(marker))


def test_workers_that_are_killed_or_lose_their_device_are_replaced_and_the_bytes_are_the_same(
    corpus: Path, tmp_path: Path
) -> None:
    (corpus / "c.txt").write_text("KILL the worker\nits device is GONE\n")
    encode = EncodeConfig(batch_tokens=5)
    fake_dump(corpus, tmp_path / "expected", encode=encode, encoder=fake(tmp_path / "before", "KILL", "GONE"))
    with dask_cluster(tmp_path) as address:
        runner = RunnerConfig(runner="dask", options=(f"--dask_client_address={address}",))
        fake_dump(corpus, tmp_path / "out", runner=runner, encode=encode, encoder=fake(tmp_path / "during"))
    assert {path.name for path in tmp_path.glob("during*")} == {"during-KILL", "during-GONE"}
    assert "at sentence 'c.txt:2': the device is gone; this worker ends" in (tmp_path / "workers.log").read_text()
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "expected")


def test_any_other_graph_is_refused() -> None:
    config = RunnerConfig(runner="dask", options=("--dask_client_address=tcp://127.0.0.1:1",))
    pipeline = beam_pipeline(config, shards=1)
    pipeline | beam.Create([1, 2]) | beam.Map(print)
    with pytest.raises(ConfigError, match="Dask's runner loses data"):
        run(pipeline, config)
