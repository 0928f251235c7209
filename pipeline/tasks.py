"""Task files: the parsed sentences of one shard, so that no worker ever parses a corpus."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import StorageError
from pipeline.records import Sentence
from pipeline.schema import task_name
from pipeline.storage import Folder

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("tokens", pa.list_(pa.field("element", pa.string(), nullable=False)), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        # A flat list of start, end, start, end, ...
        pa.field("spans", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
    ]
)

# What the writer holds in memory at a time.
_GROUP_TOKENS = 500_000
_GROUP_SENTENCES = 50_000


def write_task(folder: Folder, shard: int, sentences: Iterable[Sentence]) -> None:
    """Writes the task file of a shard, in bounded memory however many sentences there are.

    Raises:
        StorageError: It cannot be written; nothing is then left of it.
    """
    name = task_name(shard)
    with folder.staged(name) as path:
        with (
            folder.explained("write", name),
            pq.ParquetWriter(
                path, _SCHEMA, use_dictionary=["source"], write_statistics=False, write_page_checksum=True
            ) as writer,
        ):
            for group in _groups(sentences):
                writer.write_table(_table(group))
        folder.publish(path, name)


def read_task(folder: Folder, shard: int) -> list[Sentence]:
    """The sentences of a shard, in document order.

    Raises:
        StorageError: The task file is absent or damaged.
    """
    name = task_name(shard)
    # From memory: pyarrow's threads that read a Python file can outlive the interpreter, which then aborts.
    data = pa.BufferReader(folder.read_bytes(name))
    try:
        task = pq.ParquetFile(data, page_checksum_verification=True)
        columns = task.read(_SCHEMA.names, use_threads=False).to_pydict()
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = " ".join(str(error).split())
        advice = "remove it and run the same command again to plan it anew"
        raise StorageError(f"{folder.url}/{name} is no task file ({problem}); {advice}") from None
    return [
        Sentence(
            id=identifier,
            text=text,
            tokens=tuple(tokens),
            source=source,
            line=line,
            spans=tuple(zip(spans[::2], spans[1::2], strict=True)),
        )
        for identifier, text, tokens, source, line, spans in zip(
            *(columns[name] for name in _SCHEMA.names), strict=True
        )
    ]


def _groups(sentences: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    group: list[Sentence] = []
    tokens = 0
    for sentence in sentences:
        group.append(sentence)
        tokens += len(sentence.tokens)
        if tokens >= _GROUP_TOKENS or len(group) >= _GROUP_SENTENCES:
            yield group
            group, tokens = [], 0
    if group:
        yield group


def _table(sentences: Sequence[Sentence]) -> pa.Table:
    lengths = (len(sentence.tokens) for sentence in sentences)
    tokens = pa.ListArray.from_arrays(
        pa.array(list(accumulate(lengths, initial=0)), pa.int32()),
        pa.array(list(chain.from_iterable(sentence.tokens for sentence in sentences)), pa.string()),
        type=_SCHEMA.field("tokens").type,
    )
    return pa.table(
        [
            pa.array([sentence.id for sentence in sentences], pa.string()),
            pa.array([sentence.text for sentence in sentences], pa.string()),
            tokens,
            pa.array([sentence.source for sentence in sentences], pa.string()),
            pa.array([sentence.line for sentence in sentences], pa.int64()),
            pa.array([list(chain.from_iterable(s.spans)) for s in sentences], _SCHEMA.field("spans").type),
        ],
        schema=_SCHEMA,
    )
