"""JSON lines: an object a line with a text or tokens, and an id if it has one."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pipeline.formats.base import FieldNames, RawSentence, malformed, raw_sentence


def parse_jsonl(lines: Iterable[str], *, source: str, names: FieldNames) -> Iterator[RawSentence]:
    """A sentence for every line that is not blank, from its keys of these names; see `raw_sentence`.

    Raises:
        CorpusError: A line is no JSON object, or a value is of the wrong kind.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise malformed(source, number, f"not a JSON value: {error}") from None
        if not isinstance(value, dict):
            kind = type(value).__name__
            raise malformed(source, number, f'expected an object such as {{"text": "a b"}}, found a {kind}')
        yield raw_sentence(value, names, source=source, line=number)
