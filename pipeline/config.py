"""The settings of a dump, shared by the command line and the API."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from pipeline.errors import ConfigError
from pipeline.pooling import pool_names
from pipeline.schema import ShardFormat, StoredDtype

InputFormat = Literal["auto", "text", "tsv", "jsonl", "conllu", "conll", "fasta", "parquet"]
BlankLines = Literal["keep", "skip", "refuse"]
ConlluColumn = Literal["form", "lemma"]
FastaId = Literal["word", "line", "accession"]
Precision = Literal["float32", "tf32", "bfloat16", "float16", "int8"]
Device = Literal["auto", "cpu", "cuda"]


def check_choice(name: str, value: str, allowed: object) -> None:
    """Refuses a value that is not one of a Literal's.

    Raises:
        ConfigError: Naming the setting, the value and what is allowed.
    """
    choices = get_args(allowed)
    if value not in choices:
        raise ConfigError(f"{name} {value!r} is not one of {', '.join(choices)}")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """How the input is found and read; all of it changes what is planned, so all of it is in the fingerprint.

    Attributes:
        input_format: `auto` goes by the file name: `.tsv`, `.jsonl`, `.conllu`, `.fasta`, ...; anything else is text.
        glob: Which files of a folder are read, matched against the path relative to it; without `/`, against the name.
        encoding: Of the text files; anything that does not decode is an error with line and byte.
        tokenizer: A name of `pipeline.tokenizers`.
        blank_lines: Whether a sentence of no tokens, such as a blank line, is kept, left out, or refused.
        id_column: Of JSON lines and tables: the name of the id. The next two are those of text and tokens.
        text_column: See `id_column`.
        tokens_column: See `id_column`.
        spans_column: Of JSON lines and tables: the name of the chosen spans, `[[start, end], ...]` in tokens; empty to
            read none.
        conllu_column: Of CoNLL-U: what the tokens are.
        conll_column: Of other CoNLL formats: the column of the tokens, counted from 1; None is 1, unless that seems to
            number the rows, which is refused.
        fasta_id: Of FASTA: which part of a header is the id.
    """

    input_format: InputFormat = "auto"
    glob: str = "**/*"
    encoding: str = "utf-8"
    tokenizer: str = "whitespace"
    blank_lines: BlankLines = "keep"
    id_column: str = "id"
    text_column: str = "text"
    tokens_column: str = "tokens"
    spans_column: str = ""
    conllu_column: ConlluColumn = "form"
    conll_column: int | None = None
    fasta_id: FastaId = "word"

    def __post_init__(self) -> None:
        check_choice("input format", self.input_format, InputFormat)
        check_choice("blank lines", self.blank_lines, BlankLines)
        check_choice("CoNLL-U column", self.conllu_column, ConlluColumn)
        check_choice("FASTA id", self.fasta_id, FastaId)
        if self.conll_column is not None and self.conll_column < 1:
            raise ConfigError(f"CoNLL column {self.conll_column} is below 1; columns are counted from 1")
        if not self.glob:
            raise ConfigError("glob is empty; '**/*' takes every file")
        try:
            "".encode(self.encoding)
        except LookupError:
            raise ConfigError(f"encoding {self.encoding!r} is unknown; try utf-8 or latin-1") from None


@dataclass(frozen=True, kw_only=True)
class EncodeConfig:
    """How sentences are grouped and computed; all but the device is in the fingerprint.

    Attributes:
        batch_tokens: The most tokens a batch may have once padded (sentences x longest); a longer sentence goes alone.
        carried_state: The originals' stateful behaviour: file order, `batch_sentences` a batch, one shard, LSTM state
            carried from batch to batch. Off: every sentence starts from zero state.
        batch_sentences: Sentences a batch, for `carried_state` only, where it changes the numbers.
        precision: Of the computation; what is stored is `StoreConfig.dtype`.
        device: `auto` takes CUDA where it works and says which it took.
    """

    batch_tokens: int = 8192
    carried_state: bool = False
    batch_sentences: int | None = None
    precision: Precision = "float32"
    device: Device = "auto"

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, Precision)
        check_choice("device", self.device, Device)
        if self.batch_tokens < 1:
            raise ConfigError(f"batch tokens {self.batch_tokens} is below 1")
        if self.carried_state != (self.batch_sentences is not None):
            raise ConfigError("carried state and batch sentences go together: give both or neither")
        if self.batch_sentences is not None and self.batch_sentences < 1:
            raise ConfigError(f"batch sentences {self.batch_sentences} is below 1")


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """What is written; all of it is in the fingerprint.

    Attributes:
        shard_format: One format for all shards of a store.
        dtype: Of every column; float16 is converted by numpy, and a value that overflows fails its sentence.
        layers: `all`, `top`, `average`, layer numbers such as `0,2`, or `mix:` and a weight for each layer.
        pool: How the tokens of a sentence, or of each of its spans if those are read, become one row: `mean`, `max`,
            `first`, `last` or several such as `mean,max`; empty for a row a token.
        shard_tokens: Tokens at which a shard is closed; a sentence is never split.
    """

    shard_format: ShardFormat = "hdf5"
    dtype: StoredDtype = "float32"
    layers: str = "all"
    pool: str = ""
    shard_tokens: int = 20_000

    def __post_init__(self) -> None:
        check_choice("format", self.shard_format, ShardFormat)
        check_choice("dtype", self.dtype, StoredDtype)
        pool_names(self.pool)
        if self.shard_tokens < 1:
            raise ConfigError(f"shard tokens {self.shard_tokens} is below 1")


@dataclass(frozen=True, kw_only=True)
class DumpConfig:
    """Everything but the input, the encoder and the output of a dump."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    encode: EncodeConfig = field(default_factory=EncodeConfig)
    store: StoreConfig = field(default_factory=StoreConfig)

    def __post_init__(self) -> None:
        if self.corpus.spans_column and not self.store.pool:
            raise ConfigError(
                f"spans of {self.corpus.spans_column!r} are read to be pooled: say how, such as mean, or read no spans"
            )
