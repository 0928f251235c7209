"""The value that flows through the pipeline: one sentence and where it came from."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """One sentence of a corpus.

    Attributes:
        id: Unique in the corpus; given by the input, else `path/relative/to/corpus.txt:LINE`.
        tokens: The tokens in order; none for a blank line.
        text: The sentence as it stood in the input; None where the input gave tokens only.
        source: The input file, relative to the corpus, with POSIX separators.
        line: The 1-based line of the decompressed file where the sentence starts.
        spans: Chosen runs of tokens, each from a position up to another; none unless the corpus is read with them.
    """

    id: str
    tokens: tuple[str, ...]
    text: str | None
    source: str
    line: int
    spans: tuple[tuple[int, int], ...] = ()
