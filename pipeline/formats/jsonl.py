"""JSON lines: an object a line with `text` or `tokens`, and an `id` if it has one."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pipeline.formats.base import RawSentence, malformed


def parse_jsonl(lines: Iterable[str], *, source: str) -> Iterator[RawSentence]:
    """A sentence for every line that is not blank; keys other than `id`, `text` and `tokens` are ignored.

    Given tokens are kept exactly as they are, with the text beside them if there is one. A whole number as id is
    written in decimal.

    Raises:
        CorpusError: A line is no JSON object, or a value is of the wrong kind.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _sentence(line, source, number)


def _sentence(line: str, source: str, number: int) -> RawSentence:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise malformed(source, number, f"not a JSON value: {error}") from None
    if not isinstance(value, dict):
        raise malformed(source, number, f'expected an object such as {{"text": "a b"}}, found a {type(value).__name__}')
    identifier, text, tokens = value.get("id"), value.get("text"), value.get("tokens")
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        identifier = str(identifier)
    if not isinstance(identifier, str | None):
        raise malformed(source, number, f"'id' is {identifier!r:.80}, not a string or a whole number")
    if not isinstance(text, str | None):
        raise malformed(source, number, f"'text' is {text!r:.80}, not a string")
    if tokens is not None and not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
        raise malformed(source, number, f'\'tokens\' is {tokens!r:.80}, not a list of strings such as ["a", "b"]')
    if text is None and tokens is None:
        raise malformed(source, number, "neither 'text' nor 'tokens' in the object")
    return RawSentence(number, id=identifier, text=text, tokens=tokens)
