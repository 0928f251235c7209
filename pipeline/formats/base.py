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
        spans: As the file gives them, in tokens; None where none are asked for.
    """

    line: int
    id: str | None = None
    text: str | None = None
    tokens: list[str] | None = None
    spans: list[list[int]] | None = None


class FieldNames(NamedTuple):
    """What the fields of a record are called; spans are not read where their name is empty."""

    id: str
    text: str
    tokens: str
    spans: str = ""


def malformed(source: str, line: int, problem: str) -> CorpusError:
    """The error for a place of an input file that cannot be read as its format."""
    return CorpusError(f"{source}:{line}: {problem}")


def raw_sentence(fields: dict[str, Any], names: FieldNames, *, source: str, line: int) -> RawSentence:
    """The sentence of a record with an id, a text and tokens, of which all but one of the last two may be absent.

    Tokens are kept exactly as they are, with the text beside them if there is one. A whole number as id is written in
    decimal.

    Args:
        fields: The values of the record by name; others are ignored.
        names: Those that are read.
        source: The file, for errors.
        line: Of the record.

    Raises:
        CorpusError: There is neither text nor tokens, spans are asked for and absent, or a value is of the wrong kind.
    """
    identifier, text, tokens = (fields.get(name) for name in (names.id, names.text, names.tokens))
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        identifier = str(identifier)
    if not isinstance(identifier, str | None):
        raise malformed(source, line, f"{names.id!r} is {identifier!r:.80}, not a string or a whole number")
    if not isinstance(text, str | None):
        raise malformed(source, line, f"{names.text!r} is {text!r:.80}, not a string")
    if tokens is not None and not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
        raise malformed(source, line, f'{names.tokens!r} is {tokens!r:.80}, not a list of strings such as ["a", "b"]')
    if text is None and tokens is None:
        raise malformed(source, line, f"neither {names.text!r} nor {names.tokens!r} has a value")
    spans = _spans(fields.get(names.spans), names.spans, source, line) if names.spans else None
    return RawSentence(line, id=identifier, text=text, tokens=tokens, spans=spans)


def _spans(value: Any, name: str, source: str, line: int) -> list[list[int]]:
    def is_pair(span: Any) -> bool:
        return isinstance(span, list) and len(span) == 2 and all(type(end) is int for end in span)

    if not isinstance(value, list) or not all(is_pair(span) for span in value):
        raise malformed(
            source,
            line,
            f"{name!r} is {value!r:.80}, not a list of spans such as [[0, 2], [3, 4]]; [] if there are none",
        )
    return value
