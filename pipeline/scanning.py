"""One pass over a corpus: every sentence checked, counted and given its shard."""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.config import DumpConfig
from pipeline.corpus import corpus_tokenizer, read_sentences
from pipeline.errors import CorpusError
from pipeline.formats.streams import Digest, InputFile
from pipeline.records import Sentence
from pipeline.schema import id_hash

# Of a shard, beside its tokens, since blank lines have none.
MAX_SENTENCES = 50_000

_SUSPECTS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedShard:
    """A run of sentences, in document order, that is encoded and written as one.

    Attributes:
        number: Counted from 0.
        sentences: How many, blank ones included.
        tokens: Of all of them.
    """

    number: int
    sentences: int
    tokens: int


class CorpusScan:
    """Iterates once over all sentences of the inputs, and knows at the end what a plan needs.

    Holds one sentence and eight bytes for each before it.

    Attributes:
        tokenizer: The version of the tokenizer used.
        digests: SHA-256 of each input, complete at the end.
        counts: As `read_sentences` counts, and `string_bytes`: the UTF-8 bytes of ids, sources, texts and tokens.

    Raises:
        ConfigError: The tokenizer cannot be had.
        CorpusError: While iterating: something in the corpus is refused; at its end: an id stands twice, or there is no
            sentence at all.
    """

    def __init__(self, inputs: Sequence[InputFile], config: DumpConfig) -> None:
        self._inputs = inputs
        self._config = config
        self._tokenizer = corpus_tokenizer(config.corpus)
        self._shard_sentences: list[int] = []
        self._shard_tokens: list[int] = []
        self._id_hashes = array("Q")
        self.tokenizer = self._tokenizer.version
        self.digests: list[str] = []
        self.counts: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Sentence]:
        for file in self._inputs:
            digest = hashlib.sha256()
            for sentence in self._read(file, self.counts, digest):
                self._id_hashes.append(id_hash(sentence.id))
                self.counts["string_bytes"] += _string_bytes(sentence)
                yield sentence
            self.digests.append(digest.hexdigest())
        if not self._id_hashes and not self.counts["skipped_blank"]:
            names = self._inputs[0].name if len(self._inputs) == 1 else f"{len(self._inputs)} files"
            raise CorpusError(f"no sentence in {names}: nothing but empty input")
        self._refuse_duplicate_ids()

    def shard_of(self, sentence: Sentence) -> int:
        """The number of the shard that takes this sentence; to be asked once for every sentence, in order.

        A shard is closed before a sentence that would bring it over its tokens, so a longer sentence has its own. State
        that is carried from sentence to sentence has to stay in one shard.
        """
        tokens = len(sentence.tokens)
        full = not self._shard_sentences or (
            not self._config.encode.carried_state
            and (
                self._shard_tokens[-1] + tokens > self._config.store.shard_tokens
                or self._shard_sentences[-1] >= MAX_SENTENCES
            )
        )
        if full:
            self._shard_sentences.append(0)
            self._shard_tokens.append(0)
        self._shard_sentences[-1] += 1
        self._shard_tokens[-1] += tokens
        return len(self._shard_sentences) - 1

    def shards(self) -> tuple[PlannedShard, ...]:
        """The shards that `shard_of` has filled."""
        return tuple(
            PlannedShard(number=number, sentences=sentences, tokens=tokens)
            for number, (sentences, tokens) in enumerate(zip(self._shard_sentences, self._shard_tokens, strict=True))
        )

    def _read(self, file: InputFile, counts: Counter[str], digest: Digest | None = None) -> Iterator[Sentence]:
        return read_sentences(file, self._config.corpus, tokenizer=self._tokenizer, counts=counts, digest=digest)

    def _refuse_duplicate_ids(self) -> None:
        """Compares hashes first, then, for the few that are equal, the ids themselves, which are read again."""
        hashes = np.frombuffer(self._id_hashes, np.uint64)
        hashes.sort()
        equal = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        for start in range(0, len(equal), _SUSPECTS):
            suspects = set(equal[start : start + _SUSPECTS].tolist())
            places: dict[str, str] = {}
            for file in self._inputs:
                for sentence in self._read(file, Counter()):
                    if id_hash(sentence.id) in suspects:
                        place = f"{sentence.source}:{sentence.line}"
                        if sentence.id in places:
                            raise CorpusError(
                                f"{place}: the id {sentence.id!r} stands at {places[sentence.id]} already"
                            )
                        places[sentence.id] = place


def _string_bytes(sentence: Sentence) -> int:
    string = "".join((sentence.id, sentence.source, sentence.text or "", *sentence.tokens))
    return len(string) if string.isascii() else len(string.encode())
