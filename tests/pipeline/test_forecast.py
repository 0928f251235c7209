"""What a dump will take is told before it is begun, and is what it takes."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.config import CorpusConfig, DumpConfig, StoreConfig
from pipeline.encoding import EncoderSpec
from pipeline.errors import CorpusError
from pipeline.forecast import Forecast, forecast
from pipeline.inputs import list_inputs
from pipeline.planning import make_plan
from pipeline.schema import PLAN, Column, ShardFormat, StoredDtype
from pipeline.storage import Folder
from pipeline.tasks import read_task
from support.stores import FORMATS, bilm_columns, write_store


def forecast_of(corpus: Path, columns: Sequence[Column], config: DumpConfig | None = None) -> Forecast:
    config = config or DumpConfig()
    return forecast(list_inputs([str(corpus)], config.corpus), config=config, columns=columns)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    words = [
        "Zürich",
        "lies",
        "on",
        "a",
        "lake",
        ",",
        "as",
        "日内瓦",
        "does",
        ";",
        "both",
        "have",
        "banks",
        "in",
        "plenty",
        ".",
    ]
    lines = [" ".join(words[: number % 17]) for number in range(1500)]
    (folder / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_a_thousand_tokens_of_the_original_model(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("w " * 10 * 100)
    found = forecast_of(tmp_path, bilm_columns(2, width=512))
    assert found.tokens == 1000
    assert found.vector_bytes == 10_240_000
    half = forecast_of(tmp_path, bilm_columns(2, width=512), DumpConfig(store=StoreConfig(dtype="float16")))
    assert half.vector_bytes == 5_120_000


def test_sentence_columns_have_a_row_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b c\n\nd\n")
    mean = Column(name="mean", rows="sentence", width=10, layer=None, direction="both", derived="mean")
    assert forecast_of(tmp_path, (mean,)).vector_bytes == 3 * 10 * 4


def test_span_columns_have_a_row_a_span(tmp_path: Path) -> None:
    lines = ['{"text": "a b c", "spans": [[0, 1], [0, 3]]}', '{"text": "d", "spans": []}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    phrase = Column(name="phrase", rows="span", width=10, layer=None, direction="both", derived="mean")
    config = DumpConfig(corpus=CorpusConfig(spans_column="spans"), store=StoreConfig(pool="mean"))
    assert forecast_of(tmp_path, (phrase,), config).vector_bytes == 2 * 10 * 4


@pytest.mark.parametrize("shard_format", FORMATS)
@pytest.mark.parametrize(("width", "dtype", "shard_tokens"), [(512, "float32", 1500), (16, "float16", 20_000)])
def test_the_forecast_is_within_a_twentieth_of_the_store(
    corpus: Path, tmp_path: Path, shard_format: ShardFormat, width: int, dtype: StoredDtype, shard_tokens: int
) -> None:
    if width == 512:
        (corpus / "a.txt").write_text("\n".join((corpus / "a.txt").read_text().splitlines()[:300]))
    columns = bilm_columns(2, width=width)
    config = DumpConfig(store=StoreConfig(shard_format=shard_format, dtype=dtype, shard_tokens=shard_tokens))
    found = forecast_of(corpus, columns, config)

    planned, store = Folder(tmp_path / "planned"), Folder(tmp_path / "store")
    spec = EncoderSpec(family="fake", columns=columns, model_digest="d")
    plan = make_plan(list_inputs([str(corpus)], config.corpus), planned, config=config, spec=spec, columns=columns)
    shards = [read_task(planned, shard.number) for shard in plan.shards]
    write_store(store, shards, columns=columns, shard_format=shard_format, dtype=dtype)
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file() and path.name != PLAN]
    size = sum(path.stat().st_size for path in files)

    assert (found.shards, found.sentences, found.tokens) == (len(plan.shards), plan.sentences, plan.tokens)
    assert found.store_bytes == pytest.approx(size, rel=0.05)
    assert plan.bytes_of(range(found.shards)) == pytest.approx(found.store_bytes, rel=0.001)
    assert plan.bytes_of([]) == 0


def test_nothing_is_written_and_a_bad_corpus_is_refused(corpus: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    found = forecast_of(corpus, bilm_columns(1, width=4), DumpConfig(corpus=CorpusConfig(blank_lines="skip")))
    assert found.counts["skipped_blank"] == 89
    assert sorted(tmp_path.rglob("*")) == before
    (corpus / "b.tsv").write_text("1\ta\n1\tb\n")
    with pytest.raises(CorpusError, match=r"b\.tsv:2: the id '1' stands at b.tsv:1 already"):
        forecast_of(corpus, bilm_columns(1, width=4))
