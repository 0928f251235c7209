"""What every format gives: one sentence as it stands in a file, not yet checked, tokenised or named."""

from typing import NamedTuple

from pipeline.errors import CorpusError


class RawSentence(NamedTuple):
    """A sentence as its file has it.

    Attributes:
        line: The 1-based line, or row, where it starts.
        id: As the file gives it; None where it gives none.
        text: As the file gives it; None where it gives tokens only.
        tokens: As the file gives them; None where the text is still to be tokenised.
    """

    line: int
    id: str | None = None
    text: str | None = None
    tokens: list[str] | None = None


def malformed(source: str, line: int, problem: str) -> CorpusError:
    """The error for a place of an input file that cannot be read as its format."""
    return CorpusError(f"{source}:{line}: {problem}")
