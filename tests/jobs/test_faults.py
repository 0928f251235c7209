"""What happens to a dump that nothing should happen to: lost files, clocks that go back, the same work done twice."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.config import CorpusConfig, DumpConfig, EncodeConfig, StoreConfig
from pipeline.derivations import select_columns
from pipeline.encode_shard import encode_shard
from pipeline.encoding import Encoded
from pipeline.errors import TooManyFailuresError
from pipeline.guarding import GuardedEncoder
from pipeline.inputs import list_inputs
from pipeline.planning import make_plan
from pipeline.reader import FeatureStore
from pipeline.receipts import valid_receipt
from pipeline.storage import Folder
from support.cli import elmo
from support.dumping import fake_dump, lasting_files, write_corpus
from support.fakes import COLUMNS, FakeEncoder, FakeEncoderFactory


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus", sentences=24)


def stopped_dump(corpus: Path, out: Path) -> None:
    """A dump that stops before its last shard."""
    (corpus / "z.txt").write_text("a\nBOOM\n")
    with pytest.raises(TooManyFailuresError):
        fake_dump(corpus, out, max_failures=0, encode=EncodeConfig(batch_tokens=1))


def test_receipts_without_shards_and_shards_without_receipts_are_computed_again(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    stopped_dump(corpus, out)
    shards, receipts = sorted((out / "shards").iterdir()), sorted((out / "receipts").iterdir())
    assert len(shards) == len(receipts) >= 4
    shards[0].unlink()
    receipts[1].unlink()
    shards[2].write_bytes(shards[2].read_bytes()[:-1])
    kept = shards[3].stat().st_ino
    fake_dump(corpus, out, encode=EncodeConfig(batch_tokens=1))
    fake_dump(corpus, tmp_path / "expected", encode=EncodeConfig(batch_tokens=1))
    assert lasting_files(out) == lasting_files(tmp_path / "expected")
    assert shards[3].stat().st_ino == kept, "a finished shard was computed again"


def test_a_clock_that_goes_backwards_changes_nothing(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Backwards(datetime):
        calls = 0

        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            cls.calls += 1
            return datetime(2024, 1, 1, tzinfo=UTC) - timedelta(hours=cls.calls)

    fake_dump(corpus, tmp_path / "expected")
    monkeypatch.setattr("pipeline.encode_shard.datetime", Backwards)
    fake_dump(corpus, tmp_path / "out")
    assert Backwards.calls >= 3
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "expected")
    done = elmo(capsys, "status", tmp_path / "out")
    assert done.code == 0 and "complete" in done.out


def test_a_shard_that_two_workers_compute_at_once_is_there_once(corpus: Path, tmp_path: Path) -> None:
    barrier = threading.Barrier(2)

    class Together(FakeEncoder):
        def encode(self, sentences: Sequence[Sequence[str]]) -> Encoded:
            barrier.wait(30)
            return super().encode(sentences)

    config = DumpConfig(corpus=CorpusConfig(), store=StoreConfig(shard_tokens=1000))
    folder = Folder(tmp_path / "out")
    selection = select_columns(COLUMNS, "all")
    inputs = list_inputs([str(corpus)], config.corpus)
    plan = make_plan(inputs, folder, config=config, spec=FakeEncoderFactory().describe(), columns=COLUMNS)
    (shard,) = plan.shards
    receipts = []

    def work() -> None:
        encoder = GuardedEncoder(Together([column.name for column in COLUMNS]), max_failures=0)
        receipt = encode_shard(
            folder, plan, shard, encoder, selection=selection, encode=config.encode, store=config.store
        )
        receipts.append(receipt)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(receipts) == 2 and receipts[0].file == receipts[1].file
    assert [path.name for path in (tmp_path / "out" / "shards").iterdir()] == [receipts[0].file.rpartition("/")[2]]
    assert valid_receipt(folder, plan, shard) in receipts
    fake_dump(corpus, tmp_path / "out", encode=config.encode, store=config.store)
    assert len(FeatureStore.open(tmp_path / "out")) == shard.sentences
