"""Corpora of one file, given as bytes."""

from collections import Counter
from pathlib import Path

from pipeline.config import CorpusConfig
from pipeline.corpus import corpus_tokenizer, read_sentences
from pipeline.formats.streams import Digest, InputFile
from pipeline.records import Sentence
from pipeline.tokenizers import Tokenizer


def read_as(
    path: Path,
    data: bytes,
    name: str = "a.txt",
    *,
    config: CorpusConfig | None = None,
    tokenizer: Tokenizer | None = None,
    counts: Counter[str] | None = None,
    digest: Digest | None = None,
) -> list[Sentence]:
    """The sentences of bytes that are written to a path and read as a file of this name."""
    path.write_bytes(data)
    config = config or CorpusConfig()
    sentences = read_sentences(
        InputFile(name=name, content=path),
        config,
        tokenizer=tokenizer or corpus_tokenizer(config),
        counts=Counter() if counts is None else counts,
        digest=digest,
    )
    return list(sentences)
