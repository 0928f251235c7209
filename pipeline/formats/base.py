"""What every format gives: one sentence as it stands in a file, not yet checked, tokenised or named."""

from typing import Any, NamedTuple

from pipeline.errors import CorpusError


class RawSentence(NamedTuple):
    """A sentence as its file has it.

    Attributes:
        line: The 1-based line, or row of a table, where it starts.
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


def raw_sentence(fields: dict[str, Any], names: tuple[str, str, str], *, source: str, line: int) -> RawSentence:
    """The sentence of a record with an id, a text and tokens, of which all but one of the last two may be absent.

    Tokens are kept exactly as they are, with the text beside them if there is one. A whole number as id is written in
    decimal.

    Args:
        fields: The values of the record by name; others are ignored.
        names: Those of id, text and tokens.
        source: The file, for errors.
        line: Of the record.

    Raises:
        CorpusError: There is neither text nor tokens, or a value is of the wrong kind.
    """
    identifier, text, tokens = (fields.get(name) for name in names)
    id_name, text_name, tokens_name = names
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        identifier = str(identifier)
    if not isinstance(identifier, str | None):
        raise malformed(source, line, f"{id_name!r} is {identifier!r:.80}, not a string or a whole number")
    if not isinstance(text, str | None):
        raise malformed(source, line, f"{text_name!r} is {text!r:.80}, not a string")
    if tokens is not None and not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
        raise malformed(source, line, f'{tokens_name!r} is {tokens!r:.80}, not a list of strings such as ["a", "b"]')
    if text is None and tokens is None:
        raise malformed(source, line, f"neither {text_name!r} nor {tokens_name!r} has a value")
    return RawSentence(line, id=identifier, text=text, tokens=tokens)
