"""Parquet and Arrow tables with a text or tokens column, and an id column if they have one."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import CorpusError
from pipeline.formats.base import FieldNames, RawSentence, malformed, raw_sentence
from pipeline.formats.streams import Digest, InputFile, decompressed

_BATCH_ROWS = 1000

_PARQUET, _ARROW_FILE = b"PAR1", b"ARROW1"


def read_table(file: InputFile, *, names: FieldNames, digest: Digest | None = None) -> Iterator[RawSentence]:
    """A sentence for every row, from its columns of these names; see `raw_sentence`. Lines are rows, counted from 1.

    Arrow tables may be in the file format (Feather) or the stream format.

    Raises:
        CorpusError: It is no such table, has neither text nor tokens, or a value is of the wrong kind or absent.
    """
    if digest is not None:
        file.feed(digest)
    row = 0
    try:
        with _on_disk(file) as path:
            for batch in _batches(path, file.name, names):
                for record in batch.to_pylist():
                    row += 1
                    sentence = raw_sentence(record, names, source=file.name, line=row)
                    if sentence.id is None and names.id in record:
                        raise malformed(file.name, row, f"the id in {names.id!r} is null")
                    yield sentence
    except CorpusError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = " ".join(str(error).split())
        raise CorpusError(f"{file.name}: cannot be read as a table after row {row}: {problem}") from None


@contextlib.contextmanager
def _on_disk(file: InputFile) -> Iterator[Path]:
    """Where the table lies, since it is not read from its start to its end; else a copy, for the time of reading."""
    if isinstance(file.content, Path) and file.compression() is None:
        yield file.content
        return
    with tempfile.NamedTemporaryFile() as copy:
        with decompressed(file) as stream:
            shutil.copyfileobj(stream, copy)
        copy.flush()
        yield Path(copy.name)


def _batches(path: Path, source: str, names: FieldNames) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as opened:
        magic = opened.read(len(_ARROW_FILE))
    if magic.startswith(_PARQUET):
        with pq.ParquetFile(path) as table:
            columns = _present(table.schema_arrow, source, names)
            yield from table.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False)
        return
    with pa.OSFile(str(path)) as stream:
        if magic == _ARROW_FILE:
            reader = pa.ipc.open_file(stream)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            reader = batches = pa.ipc.open_stream(stream)
        columns = _present(reader.schema, source, names)
        for batch in batches:
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.select(columns).slice(start, _BATCH_ROWS)


def _present(schema: pa.Schema, source: str, names: FieldNames) -> list[str]:
    present = [name for name in names if name in schema.names]
    contents, spans = (names.text, names.tokens), (names.spans,) if names.spans else ()
    if not {*present} & {*contents} or not {*spans} <= {*present}:
        wanted = " or ".join(map(repr, contents if not {*present} & {*contents} else spans))
        raise CorpusError(f"{source}: no column {wanted}; its columns are {', '.join(map(repr, schema.names))}")
    return present
