"""From input files to checked, tokenised and named sentences."""

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from pipeline.config import CorpusConfig
from pipeline.errors import ConfigError, CorpusError
from pipeline.formats.base import FieldNames, RawSentence, malformed
from pipeline.formats.conll import parse_conll, parse_conllu
from pipeline.formats.fasta import parse_fasta
from pipeline.formats.jsonl import parse_jsonl
from pipeline.formats.streams import COMPRESSIONS, Digest, InputFile, read_lines
from pipeline.formats.table import read_table
from pipeline.formats.text import parse_text, parse_tsv
from pipeline.records import Sentence
from pipeline.tokenizers import MissingTokenizerLibraryError, Tokenizer, load_tokenizer

_FORMATS = {
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".conllu": "conllu",
    ".conll": "conll",
    ".iob2": "conll",
    ".fasta": "fasta",
    ".fa": "fasta",
    ".faa": "fasta",
    ".parquet": "parquet",
    ".arrow": "parquet",
    ".feather": "parquet",
}


def input_format(name: str, config: CorpusConfig) -> str:
    """The format of a file: the one configured, else what its name says, else `text`."""
    if config.input_format != "auto":
        return config.input_format
    path = PurePosixPath(name.lower())
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return _FORMATS.get(path.suffix, "text")


def corpus_tokenizer(config: CorpusConfig) -> Tokenizer:
    """The tokenizer that the settings name.

    Raises:
        ConfigError: It is unknown, or its library is not installed.
    """
    try:
        return load_tokenizer(config.tokenizer)
    except (ValueError, MissingTokenizerLibraryError) as error:
        raise ConfigError(str(error)) from None


def read_sentences(
    file: InputFile,
    config: CorpusConfig,
    *,
    tokenizer: Tokenizer,
    counts: Counter[str],
    digest: Digest | None = None,
) -> Iterator[Sentence]:
    """The sentences of a file in order, one in memory at a time; `digest` is given the file's own bytes.

    A text becomes one sentence with the whitespace tokenizer; with any other it becomes the sentences that the
    tokenizer finds, with `#1`, `#2`, ... after the id, also if it finds one. Given tokens are kept as they are. Lone
    surrogates, which no encoding can store, are dropped.

    Adds to `counts`: `blank` (sentences without tokens), `skipped_blank` (those left out), `dropped_surrogates`, and
    `spans` if those are read.

    Raises:
        CorpusError: The file cannot be read as its format, an id is empty or has a lone surrogate, a span is not within
            its sentence, or a sentence without tokens is refused; names the file and line.
    """
    whole_lines = tokenizer.name == "whitespace"
    for raw in _parse(file, config, digest):
        identifier = f"{file.name}:{raw.line}" if raw.id is None else _checked_id(raw.id, file.name, raw.line)
        text = None if raw.text is None else _storable(raw.text, counts)
        pieces: list[tuple[str, str | None, list[str]]]
        if raw.tokens is not None:
            pieces = [(identifier, text, _storable_tokens(raw.tokens, counts))]
        elif text is None:
            raise malformed(file.name, raw.line, "neither text nor tokens")
        elif whole_lines:
            pieces = [(identifier, text, text.split())]
        elif raw.spans:
            raise malformed(
                file.name, raw.line, f"spans count tokens, which {tokenizer.name} has yet to make: give both"
            )
        else:
            pieces = [(f"{identifier}#{n}", part, tokens) for n, (part, tokens) in enumerate(tokenizer(text), 1)]
        for piece_id, piece_text, tokens in pieces:
            if not tokens:
                counts["blank"] += 1
                if config.blank_lines == "refuse":
                    raise malformed(file.name, raw.line, "a sentence without tokens; this run is set to refuse them")
                if config.blank_lines == "skip":
                    counts["skipped_blank"] += 1
                    continue
            yield Sentence(
                id=piece_id,
                tokens=tuple(tokens),
                text=piece_text,
                source=file.name,
                line=raw.line,
                spans=_checked_spans(raw, len(tokens), file.name, counts),
            )


def _parse(file: InputFile, config: CorpusConfig, digest: Digest | None) -> Iterator[RawSentence]:
    name, chosen = file.name, input_format(file.name, config)
    names = FieldNames(config.id_column, config.text_column, config.tokens_column, config.spans_column)
    if names.spans and chosen not in ("parquet", "jsonl"):
        raise CorpusError(f"{name}: spans are read from JSON lines and tables, not from the format {chosen}")
    if chosen == "parquet":
        return read_table(file, names=names, digest=digest)
    lines = read_lines(file, encoding=config.encoding, digest=digest)
    match chosen:
        case "tsv":
            return parse_tsv(lines, source=name, skip_blank=config.blank_lines == "skip")
        case "jsonl":
            return parse_jsonl(lines, source=name, names=names)
        case "conllu":
            return parse_conllu(lines, source=name, column=config.conllu_column)
        case "conll":
            return parse_conll(lines, source=name, token_column=config.conll_column)
        case "fasta":
            return parse_fasta(lines, source=name, id_rule=config.fasta_id)
        case _:
            return parse_text(lines)


def _checked_id(identifier: str, source: str, line: int) -> str:
    if not identifier:
        raise malformed(source, line, "the id is empty")
    if _has_lone_surrogate(identifier):
        raise malformed(source, line, f"the id {identifier!r} has a lone surrogate, which cannot be stored")
    return identifier


def _checked_spans(raw: RawSentence, tokens: int, source: str, counts: Counter[str]) -> tuple[tuple[int, int], ...]:
    if raw.spans is None:
        return ()
    for start, end in raw.spans:
        if not 0 <= start < end <= tokens:
            problem = (
                f"the span [{start}, {end}] is not within the {tokens} tokens; it starts at 0 and ends behind its last"
            )
            raise malformed(source, raw.line, problem)
    counts["spans"] += len(raw.spans)
    return tuple((start, end) for start, end in raw.spans)


def _storable(text: str, counts: Counter[str]) -> str:
    if not _has_lone_surrogate(text):
        return text
    kept = text.encode("utf-8", "ignore").decode("utf-8")
    counts["dropped_surrogates"] += len(text) - len(kept)
    return kept


def _storable_tokens(tokens: list[str], counts: Counter[str]) -> list[str]:
    return [_storable(token, counts) for token in tokens] if _has_lone_surrogate("".join(tokens)) else tokens


def _has_lone_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
