"""A dump that is killed, at whatever moment, and run again."""

from pathlib import Path

import pytest

from pipeline.config import StoreConfig
from pipeline.errors import StoreError
from pipeline.reader import FeatureStore
from pipeline.schema import MANIFEST
from support.dumping import dump_killed_at, fake_dump, lasting_files, write_corpus

# From one kill to the next, in changes of a name; the cases begin at different ones.
STRIDE = 4


@pytest.mark.parametrize(
    ("shard_format", "after", "first"), [("hdf5", False, 1), ("hdf5", True, 2), ("parquet", True, 4)]
)
def test_killed_at_any_change_of_a_name_and_resumed_the_store_is_the_same(
    tmp_path: Path, shard_format: str, after: bool, first: int
) -> None:
    corpus = write_corpus(tmp_path / "corpus", sentences=20)
    store = StoreConfig(shard_tokens=20, shard_format=shard_format)  # type: ignore[arg-type]
    fake_dump(corpus, tmp_path / "undisturbed", store=store)
    expected = lasting_files(tmp_path / "undisturbed")

    killed = 0
    for step in range(first, 1000, STRIDE):
        output = tmp_path / f"killed{step}"
        if not dump_killed_at(step, after=after, corpus=corpus, output=output, shard_format=shard_format):
            assert lasting_files(output) == expected
            break
        killed += 1
        if not (output / MANIFEST).exists():
            with pytest.raises(StoreError):
                FeatureStore.open(output)
        finished = {path.name: path.read_bytes() for path in (output / "receipts").glob("[0-9]*.json")}
        fake_dump(corpus, output, store=store)
        assert lasting_files(output) == expected
        for name, receipt in finished.items():
            assert (output / "receipts" / name).read_bytes() == receipt, "a finished shard was computed again"
    assert killed >= 3


@pytest.mark.parametrize("damage", ["cut", "gone", "stray"])
def test_a_planted_half_file_is_never_taken_for_a_shard(tmp_path: Path, damage: str) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    out = tmp_path / "out"
    fake_dump(corpus, out)
    expected = lasting_files(out)
    (out / MANIFEST).unlink()
    shard = sorted((out / "shards").iterdir())[1]
    if damage == "cut":
        shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
    elif damage == "gone":
        shard.unlink()
    else:
        (out / "shards" / "00001-0badf00d.h5").write_bytes(b"half")
    fake_dump(corpus, out)
    assert lasting_files(out) == expected
