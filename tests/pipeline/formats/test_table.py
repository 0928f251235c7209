"""Parquet and Arrow tables as corpora."""

import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config import CorpusConfig
from pipeline.errors import CorpusError
from pipeline.formats.base import FieldNames
from pipeline.formats.streams import InputFile
from pipeline.formats.table import read_table
from pipeline.records import Sentence
from support.corpora import read_as

STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=1500)
    return bytes(sink.getvalue())


def arrow_file(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pyarrow.feather.write_feather(table, sink, chunksize=1500)
    return sink.getvalue()


def arrow_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


WRITERS: dict[str, Callable[[pa.Table], bytes]] = {
    "a.parquet": parquet,
    "a.feather": arrow_file,
    "a.arrow": arrow_stream,
}


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_rows_are_sentences(tmp_path: Path, name: str) -> None:
    table = pa.table({"tokens": [["a b", ""], None, []], "text": [None, "c  d", "e"], "id": ["x", "y", "z"]})
    data = WRITERS[name](table)
    digest = hashlib.sha256()
    assert read_as(tmp_path / "f", data, name, digest=digest) == [
        Sentence(id="x", tokens=("a b", ""), text=None, source=name, line=1),
        Sentence(id="y", tokens=("c", "d"), text="c  d", source=name, line=2),
        Sentence(id="z", tokens=(), text="e", source=name, line=3),
    ]
    assert digest.hexdigest() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_columns_are_chosen_by_name_and_ids_are_optional(tmp_path: Path, name: str) -> None:
    table = pa.table(
        {
            "words": pa.array([["a"], ["b", "c"]], pa.large_list(pa.large_string())),
            "key": pa.array([7, 8], pa.int16()),
            "tokens": [1.5, 2.5],
        }
    )
    data = WRITERS[name](table)
    sentences = read_as(tmp_path / "f", data, name, config=CorpusConfig(id_column="key", tokens_column="words"))
    assert [(sentence.id, sentence.tokens) for sentence in sentences] == [("7", ("a",)), ("8", ("b", "c"))]
    sentences = read_as(tmp_path / "f", data, name, config=CorpusConfig(tokens_column="words"))
    assert [sentence.id for sentence in sentences] == [f"{name}:1", f"{name}:2"]


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_many_rows_keep_their_order(tmp_path: Path, name: str) -> None:
    texts = [f"w{row}" for row in range(4321)]
    table = pa.table({"text": pa.array(texts).dictionary_encode()})
    sentences = read_as(tmp_path / "f", WRITERS[name](table), name)
    assert [sentence.text for sentence in sentences] == texts
    assert [sentence.line for sentence in sentences] == list(range(1, 4322))


@settings(deadline=None)
@given(tokens=st.lists(st.lists(STRINGS, min_size=1), min_size=1), ids=st.data())
def test_any_tokens_and_ids_come_back(
    tmp_path_factory: pytest.TempPathFactory, tokens: list[list[str]], ids: st.DataObject
) -> None:
    size = len(tokens)
    given_ids = ids.draw(st.lists(STRINGS.filter(bool), min_size=size, max_size=size, unique=True))
    path = tmp_path_factory.mktemp("table") / "f"
    sentences = read_as(path, parquet(pa.table({"id": given_ids, "tokens": tokens})), "a.parquet")
    assert [sentence.id for sentence in sentences] == given_ids
    assert [list(sentence.tokens) for sentence in sentences] == tokens


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"id": ["x"], "sentence": ["a"]}, "a.parquet: no column 'text' or 'tokens'; its columns are 'id', 'sentence'"),
        ({"id": ["x", None], "text": ["a", "b"]}, "a.parquet:2: the id in 'id' is null"),
        ({"id": ["x", "y"], "text": ["a", None]}, "a.parquet:2: neither 'text' nor 'tokens' has a value"),
        ({"tokens": [["a"], ["b", None]]}, "a.parquet:2: 'tokens' is .*, not a list of strings"),
        ({"tokens": ["a b"]}, "a.parquet:1: 'tokens' is 'a b', not a list of strings"),
        ({"text": [1]}, "a.parquet:1: 'text' is 1, not a string"),
        ({"text": ["a"], "id": [1.5]}, "a.parquet:1: 'id' is 1.5, not a string or a whole number"),
    ],
)
def test_tables_without_sentences_are_refused(tmp_path: Path, columns: dict[str, Any], problem: str) -> None:
    with pytest.raises(CorpusError, match=f"^{problem}"):
        read_as(tmp_path / "f", parquet(pa.table(columns)), "a.parquet")


@pytest.mark.parametrize("name", sorted(WRITERS))
@pytest.mark.parametrize("damage", ["cut", "zeroed", "other", "empty"])
def test_damaged_tables_are_named(tmp_path: Path, name: str, damage: str) -> None:
    whole = WRITERS[name](pa.table({"text": [f"word{row}" * 9 for row in range(3000)]}))
    data = {"cut": whole[:-700], "zeroed": whole[:60] + bytes(len(whole) - 60), "other": b"a b c\n", "empty": b""}[
        damage
    ]
    if (name, damage) == ("a.arrow", "empty"):
        data = b"\xff\xff"
    with pytest.raises(CorpusError, match=f"^{name}: cannot be read as a table after row ") as caught:
        read_as(tmp_path / "f", data, name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_spans_are_read_from_the_column_that_is_named(tmp_path: Path, name: str) -> None:
    table = pa.table({"tokens": [["a", "b", "c"], ["d"]], "phrases": [[[0, 2], [2, 3]], []]})
    config = CorpusConfig(spans_column="phrases")
    sentences = read_as(tmp_path / "f", WRITERS[name](table), name, config=config)
    assert [sentence.spans for sentence in sentences] == [((0, 2), (2, 3)), ()]
    with pytest.raises(CorpusError, match=rf"^{name}: no column 'phrases'; its columns are 'tokens'"):
        read_as(tmp_path / "f", WRITERS[name](table.select(["tokens"])), name, config=config)
    nothing = pa.table({"tokens": [["a"]], "phrases": pa.array([None], pa.list_(pa.list_(pa.int64())))})
    with pytest.raises(CorpusError, match=rf"^{name}:1: 'phrases' is None, not a list of spans"):
        read_as(tmp_path / "f", WRITERS[name](nothing), name, config=config)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_packed_and_piped_tables_are_read_too(tmp_path: Path, name: str) -> None:
    data = WRITERS[name](pa.table({"text": [f"w{row}" for row in range(2000)]}))
    plain = read_as(tmp_path / "f", data, name)
    packed = read_as(tmp_path / "f", gzip.compress(data), f"{name}.gz")
    assert [sentence.text for sentence in packed] == [sentence.text for sentence in plain]
    with tempfile.TemporaryFile() as spool:
        spool.write(data)
        spool.flush()
        piped = read_table(InputFile(name="stdin", content=spool), names=FieldNames("id", "text", "tokens"))
        assert [sentence.text for sentence in piped] == [sentence.text for sentence in plain]
    with pytest.raises(CorpusError, match=rf"^{name}\.gz: cannot be read as a table after row 0: Truncated"):
        read_as(tmp_path / "f", gzip.compress(data)[:-100], f"{name}.gz")


def test_reading_a_table_does_not_break_the_end_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(parquet(pa.table({"text": ["a"] * 5000})))
    script = """if True:
        import sys
        from pathlib import Path
        from pipeline.formats.base import FieldNames
        from pipeline.formats.streams import InputFile
        from pipeline.formats.table import read_table
        for _ in read_table(InputFile(name="a", content=Path(sys.argv[1])), names=FieldNames("id", "text", "tokens")):
            pass
    """
    for _ in range(5):
        subprocess.run([sys.executable, "-c", script, tmp_path / "a.parquet"], check=True)
