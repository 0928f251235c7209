import json
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import ConfigError, DamageError
from pipeline.records import Sentence
from pipeline.schema import SHARD_ATTRIBUTE, STATUS_FAILED, Column, ShardFormat, StoredDtype
from pipeline.shards import ShardReader, create_shard, open_shard
from pipeline.shards.parquet import ParquetWriter
from support.stores import FORMATS, bilm_columns, features_of, make_sentences, with_spans, write_shard

COLUMNS = (*bilm_columns(2, width=3), Column(name="mean", rows="sentence", width=2, layer=None, direction="both"))
SPANNED = (*COLUMNS, Column(name="phrase", rows="span", width=2, layer=None, direction="both"))
LENGTHS = (2, 0, 5, 1, 3, 0, 4)


def read(
    path: Path, shard_format: ShardFormat, *, dtype: StoredDtype = "float32", columns: tuple[Column, ...] = COLUMNS
) -> ShardReader:
    return open_shard(path.open("rb"), name=path.name, shard_format=shard_format, columns=columns, dtype=dtype)


@pytest.mark.parametrize("shard_format", FORMATS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("preload", [False, True])
def test_everything_comes_back(tmp_path: Path, shard_format: ShardFormat, dtype: StoredDtype, preload: bool) -> None:
    sentences = make_sentences(LENGTHS)
    write_shard(tmp_path / "s", sentences, columns=COLUMNS, shard_format=shard_format, dtype=dtype)
    shard = open_shard(
        (tmp_path / "s").open("rb"),
        name="s",
        shard_format=shard_format,
        columns=COLUMNS,
        dtype=dtype,
        preload=preload,
    )
    assert len(shard) == len(sentences)
    assert shard.ids() == [sentence.id for sentence in sentences]
    assert shard.offsets.tolist() == [0, 2, 2, 7, 8, 11, 11, 15]
    assert not shard.status.any()
    for row, sentence in enumerate(sentences):
        assert shard.sentence(row) == sentence
        assert shard.id(row) == sentence.id
        for column in COLUMNS:
            expected = features_of(sentence, column, dtype)
            (found,) = shard.columns((column.name,), row)
            assert found.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(found, expected)
    for column in COLUMNS:
        expected = np.concatenate([features_of(sentence, column, dtype) for sentence in sentences[1:5]])
        np.testing.assert_array_equal(shard.block(column.name, 1, 5), expected)
        assert shard.block(column.name, 3, 3).shape == (0, column.width)


@pytest.mark.parametrize("shard_format", FORMATS)
@pytest.mark.parametrize("preload", [False, True])
def test_spans_and_their_rows_come_back(tmp_path: Path, shard_format: ShardFormat, preload: bool) -> None:
    sentences = with_spans(make_sentences(LENGTHS))
    write_shard(
        tmp_path / "s",
        sentences,
        columns=SPANNED,
        shard_format=shard_format,
        failed=[4],
        batches=[[6, 0, 1], [5, 2, 3]],
    )
    shard = open_shard(
        (tmp_path / "s").open("rb"),
        name="s",
        shard_format=shard_format,
        columns=SPANNED,
        dtype="float32",
        preload=preload,
    )
    assert [shard.sentence(row) for row in range(len(shard))] == sentences
    assert shard.row_offsets("span").tolist() == [0, 3, 3, 9, 10, 14, 14, 19]
    assert shard.row_offsets("token").tolist() == shard.offsets.tolist()
    assert shard.row_offsets("sentence").tolist() == list(range(8))
    for column in SPANNED:
        expected = [features_of(s, column, "float32") * (row != 4) for row, s in enumerate(sentences)]
        for row, vectors in enumerate(expected):
            np.testing.assert_array_equal(shard.column(column.name, row), vectors)
            np.testing.assert_array_equal(shard.columns((column.name,), row)[0], vectors)
        np.testing.assert_array_equal(shard.block(column.name, 2, 7), np.concatenate(expected[2:7]))


@pytest.mark.parametrize("shard_format", FORMATS)
def test_a_shard_without_span_columns_does_not_hold_spans(tmp_path: Path, shard_format: ShardFormat) -> None:
    for name, sentences in {"bare": make_sentences(LENGTHS), "spanned": with_spans(make_sentences(LENGTHS))}.items():
        write_shard(tmp_path / name, sentences, columns=COLUMNS, shard_format=shard_format)
    assert (tmp_path / "bare").read_bytes() == (tmp_path / "spanned").read_bytes()
    shard = read(tmp_path / "bare", shard_format)
    assert shard.sentence(2).spans == ()
    assert shard.row_offsets("span").tolist() == [0] * (len(LENGTHS) + 1)


@pytest.mark.parametrize("shard_format", FORMATS)
def test_a_wrong_number_of_span_rows_is_not_written(tmp_path: Path, shard_format: ShardFormat) -> None:
    sentences = with_spans(make_sentences([2, 3]))
    writer = create_shard(
        tmp_path / "s", shard_format=shard_format, columns=SPANNED[-1:], dtype="float32", sentences=sentences
    )
    with pytest.raises(ValueError, match=r"column phrase is float32 \(2, 2\); it must be float32 \(3, 2\)"):
        writer.write([0], {"phrase": np.ones((2, 2), np.float32)})


@pytest.mark.parametrize("shard_format", FORMATS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bytes_depend_on_the_content_alone(tmp_path: Path, shard_format: ShardFormat, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(0, 6), max_size=12))
    failed = data.draw(st.lists(st.sampled_from(range(len(lengths))), unique=True)) if lengths else []
    rows = [row for row in range(len(lengths)) if row not in failed]
    order = data.draw(st.permutations(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    batches = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    sentences = make_sentences(lengths)
    write_shard(tmp_path / "one", sentences, columns=COLUMNS, shard_format=shard_format, failed=failed)
    write_shard(tmp_path / "cut", sentences, columns=COLUMNS, shard_format=shard_format, failed=failed, batches=batches)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "cut").read_bytes()
    shard = read(tmp_path / "cut", shard_format)
    for row, sentence in enumerate(sentences):
        assert (shard.status[row] == STATUS_FAILED) == (row in failed)
        expected = features_of(sentence, COLUMNS[1], "float32") * (row not in failed)
        np.testing.assert_array_equal(shard.columns(("forward_1",), row)[0], expected)


@pytest.mark.parametrize("shard_format", FORMATS)
def test_another_process_writes_the_same_bytes(tmp_path: Path, shard_format: ShardFormat) -> None:
    write_shard(tmp_path / "here", make_sentences(LENGTHS), columns=COLUMNS, shard_format=shard_format)
    script = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from support.stores import *; from pipeline.schema import Column\n"
        "columns = (*bilm_columns(2, width=3), "
        "Column(name='mean', rows='sentence', width=2, layer=None, direction='both'))\n"
        f"write_shard(Path(sys.argv[2]), make_sentences({LENGTHS}), columns=columns, shard_format='{shard_format}')\n"
    )
    tests = Path(__file__).parent.parent
    subprocess.run([sys.executable, "-c", script, str(tests), str(tmp_path / "there")], check=True, cwd=tmp_path)
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


@pytest.mark.parametrize("shard_format", FORMATS)
def test_strings_of_every_kind_are_kept(tmp_path: Path, shard_format: ShardFormat) -> None:
    texts = ["", "a\0b", "naïve 汉字 🙂", "\u2028", " two  spaces ", "x" * 5000]
    ids = [".", "..", "doc", "doc/7", "doc/7/x", "$period$%2E\0"]
    sentences = [
        Sentence(id=key, tokens=tuple(text.split(" ")), text=text, source=f"dir/{text[:2]}", line=2**40 + line)
        for line, (key, text) in enumerate(zip(ids, texts, strict=True))
    ]
    sentences.append(Sentence(id="tokens only", tokens=("a b", "", "c"), text=None, source="s", line=1))
    write_shard(tmp_path / "s", sentences, columns=COLUMNS, shard_format=shard_format)
    shard = read(tmp_path / "s", shard_format)
    assert [shard.sentence(row) for row in range(len(shard))] == sentences
    assert shard.find("a\0b") == [1]
    assert shard.find("") == [0]
    assert shard.find("a b  c") == [6]
    assert shard.find("a") == []


def test_half_floats_equal_numpy_bit_by_bit(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=9600).astype(np.float32)
    edges = np.concatenate(
        [np.nextafter(np.float32(2.0**-n), np.float32(0), dtype=np.float32)[None] for n in range(25)]
    )
    numbers = np.concatenate(
        [numbers, edges, -edges, np.array([0, -0.0, 6e-8, 65504], np.float32), np.zeros(346, np.float32)]
    )
    half = numbers.astype(np.float16).reshape(-1, 100)
    columns = (Column(name="token", width=100, layer=0, direction="none"),)
    for shard_format in FORMATS:
        path = tmp_path / shard_format
        with create_shard(
            path, shard_format=shard_format, columns=columns, dtype="float16", sentences=make_sentences([len(half)])
        ) as writer:
            writer.write([0], {"token": half})
        found = read(path, shard_format, dtype="float16", columns=columns).columns(("token",), 0)[0]
        np.testing.assert_array_equal(found.view(np.uint16), half.view(np.uint16))


def test_plain_h5py_reads_a_sentence(tmp_path: Path) -> None:
    sentences = make_sentences(LENGTHS)
    write_shard(tmp_path / "s.h5", sentences, columns=COLUMNS, shard_format="hdf5", failed=[4])
    with h5py.File(tmp_path / "s.h5") as file:
        start, stop = file["offsets"][2:4]
        vectors = file["columns/forward_2"][start:stop]
        ends = file["token/offsets"][start : stop + 1]
        tokens = [bytes(file["token/bytes"][a:b]).decode() for a, b in pairwise(ends)]
        listed = json.loads(file.attrs[SHARD_ATTRIBUTE])["columns"]
        assert not file["columns/forward_2"][slice(*file["offsets"][4:6])].any()
        assert file["status"][4] == STATUS_FAILED
        assert all(file[f"columns/{column.name}"].chunks is None for column in COLUMNS)
    np.testing.assert_array_equal(vectors, features_of(sentences[2], COLUMNS[3], "float32"))
    assert tuple(tokens) == sentences[2].tokens
    assert listed == [column.to_json() for column in COLUMNS]


def test_plain_h5py_and_pyarrow_read_the_spans_of_a_sentence(tmp_path: Path) -> None:
    sentences = with_spans(make_sentences(LENGTHS))
    expected = features_of(sentences[2], SPANNED[-1], "float32")
    write_shard(tmp_path / "s.h5", sentences, columns=SPANNED, shard_format="hdf5")
    with h5py.File(tmp_path / "s.h5") as file:
        rows = slice(*file["span/offsets"][2:4])
        assert tuple(zip(file["span/start"][rows], file["span/end"][rows], strict=True)) == sentences[2].spans
        np.testing.assert_array_equal(file["columns/phrase"][rows], expected)
    write_shard(tmp_path / "s.parquet", sentences, columns=SPANNED, shard_format="parquet")
    table = pq.read_table(tmp_path / "s.parquet")
    assert tuple(map(tuple, np.reshape(table["spans"][2].as_py(), (-1, 2)).tolist())) == sentences[2].spans
    np.testing.assert_array_equal(table["phrase"][2].values.to_numpy().reshape(-1, 2), expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_plain_pyarrow_reads_a_sentence(tmp_path: Path, dtype: StoredDtype) -> None:
    sentences = make_sentences(LENGTHS)
    write_shard(tmp_path / "s.parquet", sentences, columns=COLUMNS, shard_format="parquet", dtype=dtype)
    table = pq.read_table(tmp_path / "s.parquet")
    listed = json.loads(table.schema.metadata[SHARD_ATTRIBUTE.encode()])["columns"]
    width = next(column["width"] for column in listed if column["name"] == "forward_2")
    vectors = table["forward_2"][2].values.to_numpy().reshape(-1, width)
    np.testing.assert_array_equal(vectors, features_of(sentences[2], COLUMNS[3], dtype))
    assert vectors.dtype == np.dtype(dtype)
    assert table["tokens"][2].as_py() == list(sentences[2].tokens)
    assert table["id"].to_pylist() == [sentence.id for sentence in sentences]


def test_parquet_vectors_are_plain_and_as_small_as_their_numbers(tmp_path: Path) -> None:
    columns = bilm_columns(2, width=32)
    sentences = make_sentences([random.Random(0).randrange(1, 40)] * 1000)
    write_shard(tmp_path / "s", sentences, columns=columns, shard_format="parquet")
    metadata = pq.ParquetFile(tmp_path / "s").metadata
    size = 0
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(index)
            if chunk.path_in_schema.split(".")[0] in {column.name for column in columns}:
                assert not chunk.has_dictionary_page
                assert chunk.compression == "UNCOMPRESSED"
                assert not chunk.is_stats_set
                size += chunk.total_compressed_size
    numbers = sum(len(sentence.tokens) for sentence in sentences) * 5 * 32
    assert numbers * 4 < size < numbers * 4 * 1.01


def test_parquet_row_groups_stay_below_the_limit(tmp_path: Path) -> None:
    columns = bilm_columns(1, width=10)
    sentences = make_sentences([3, 40, 0, 0, 150, 20, 20, 1])
    writer = ParquetWriter(tmp_path / "s", columns=columns, dtype="float32", sentences=sentences, group_values=1000)
    with writer:
        values = {
            column.name: np.concatenate([features_of(s, column, "float32") for s in sentences]) for column in columns
        }
        writer.write(range(len(sentences)), values)
    metadata = pq.ParquetFile(tmp_path / "s").metadata
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [4, 1, 3]
    assert [group.column(6).num_values <= 1000 for group in groups] == [True, False, True]
    shard = read(tmp_path / "s", "parquet", columns=columns)
    np.testing.assert_array_equal(shard.block("token", 0, len(sentences)), values["token"])
    for row in (7, 0, 4, 3, 1):
        np.testing.assert_array_equal(
            shard.columns(("backward_1",), row)[0], features_of(sentences[row], columns[2], "float32")
        )


@pytest.mark.parametrize("shard_format", FORMATS)
def test_a_shard_without_sentences_is_readable(tmp_path: Path, shard_format: ShardFormat) -> None:
    write_shard(tmp_path / "s", [], columns=COLUMNS, shard_format=shard_format)
    shard = read(tmp_path / "s", shard_format)
    assert len(shard) == 0
    assert shard.ids() == []
    assert shard.offsets.tolist() == [0]
    assert shard.block("token", 0, 0).shape == (0, 3)
    if shard_format == "parquet":
        assert pq.read_table(tmp_path / "s").column_names[6:] == [column.name for column in COLUMNS]


@pytest.mark.parametrize("shard_format", FORMATS)
def test_sentences_without_tokens_need_not_be_written(tmp_path: Path, shard_format: ShardFormat) -> None:
    sentences = make_sentences([0, 2, 0])
    write_shard(tmp_path / "s", sentences, columns=COLUMNS, shard_format=shard_format, batches=[[1]])
    shard = read(tmp_path / "s", shard_format)
    assert not shard.status.any()
    assert shard.columns(("forward_1",), 2)[0].shape == (0, 3)
    assert shard.columns(("mean",), 2)[0].tolist() == [[0, 0]]


@pytest.mark.parametrize("shard_format", FORMATS)
def test_writing_mistakes_are_refused(tmp_path: Path, shard_format: ShardFormat) -> None:
    columns = bilm_columns(1, width=3)
    sentences = make_sentences([2, 1])
    good = {column.name: np.ones((2, 3), np.float32) for column in columns}
    writer = create_shard(
        tmp_path / "s", shard_format=shard_format, columns=columns, dtype="float32", sentences=sentences
    )
    with pytest.raises(ValueError, match=r"column forward_1 is missing"):
        writer.write([0], {"token": good["token"]})
    with pytest.raises(ValueError, match=r"column token is float64 \(2, 3\); it must be float32"):
        writer.write([0], {**good, "token": np.ones((2, 3))})
    with pytest.raises(ValueError, match=r"must be float32 \(1, 3\)"):
        writer.write([1], good)
    writer.write([0], good)
    with pytest.raises(ValueError, match="written or failed before"):
        writer.write([0], good)
    with pytest.raises(ValueError, match="written or failed before"):
        writer.fail(0)
    with pytest.raises(ValueError, match="1 sentences were never written, the first is 1"):
        writer.close()


@pytest.mark.parametrize("name", ["text", "spans"])
def test_names_of_parquet_itself_are_refused(tmp_path: Path, name: str) -> None:
    column = Column(name=name, width=2, layer=None, direction="both")
    with pytest.raises(ConfigError, match=f"cannot have the name {name}"):
        create_shard(tmp_path / "s", shard_format="parquet", columns=[column], dtype="float32", sentences=[])


@pytest.mark.parametrize("shard_format", FORMATS)
def test_a_shard_that_is_not_as_listed_is_named(tmp_path: Path, shard_format: ShardFormat) -> None:
    path = tmp_path / "s"
    write_shard(path, make_sentences(LENGTHS), columns=COLUMNS, shard_format=shard_format)
    with pytest.raises(DamageError, match=r"s: (dataset span/offsets|column spans) is missing"):
        read(path, shard_format, columns=SPANNED)
    write_shard(path, make_sentences(LENGTHS), columns=COLUMNS[:3], shard_format=shard_format)
    with pytest.raises(DamageError, match="s: column forward_2 is missing"):
        read(path, shard_format, columns=COLUMNS)
    with pytest.raises(DamageError, match=r"s: column token is .*float"):
        read(path, shard_format, columns=COLUMNS[:3], dtype="float16")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DamageError, match=f"s: not a readable {'HDF5' if shard_format == 'hdf5' else 'Parquet'}"):
        read(path, shard_format, columns=COLUMNS[:3])
