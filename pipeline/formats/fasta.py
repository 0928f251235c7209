"""FASTA: protein sequences, whose tokens are their residues."""

import re
from collections.abc import Iterable, Iterator

from pipeline.formats.base import RawSentence, malformed

_NO_RESIDUE = re.compile(r"[^A-Za-z*.\-]")


def parse_fasta(lines: Iterable[str], *, source: str, id_rule: str) -> Iterator[RawSentence]:
    """A sentence for every record: one token a residue, letters as they stand, with `*`, `-` and `.` among them.

    Args:
        lines: Of the file.
        source: Its name, for errors.
        id_rule: What of the header is the id: its first `word`, the whole `line`, or the `accession` between bars, as
            in `>sp|P69905|HBA_HUMAN`.

    Raises:
        CorpusError: A sequence has no header or a character that is no residue, or a header has no id of this rule.
    """
    header: tuple[int, str] | None = None
    tokens: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.startswith(">"):
            if header is not None:
                yield RawSentence(header[0], id=header[1], tokens=tokens)
            header, tokens = (number, _identifier(line[1:], id_rule, source, number)), []
            continue
        residues = "".join(line.split())
        if residues and header is None:
            raise malformed(source, number, "a sequence before the first header, which begins with '>'")
        if wrong := _NO_RESIDUE.search(residues):
            raise malformed(source, number, f"{wrong.group()!r} is no residue; a residue is a letter, '*', '-' or '.'")
        tokens.extend(residues)
    if header is not None:
        yield RawSentence(header[0], id=header[1], tokens=tokens)


def _identifier(header: str, rule: str, source: str, number: int) -> str:
    words, bars = header.split(maxsplit=1), header.split("|")
    match rule:
        case "word":
            identifier = words[0] if words else ""
        case "line":
            identifier = header.strip()
        case _:
            identifier = bars[1].strip() if len(bars) > 2 else ""
    if not identifier:
        raise malformed(source, number, f"the header '>{header[:60]}' has no id by the rule {rule!r}")
    return identifier
