"""Plain text: a sentence a line, or `id<TAB>text`."""

from collections.abc import Iterable, Iterator

from pipeline.formats.base import RawSentence, malformed


def parse_text(lines: Iterable[str]) -> Iterator[RawSentence]:
    """A sentence for every line, blank ones too."""
    for number, line in enumerate(lines, 1):
        yield RawSentence(number, text=line)


def parse_tsv(lines: Iterable[str], *, source: str, skip_blank: bool) -> Iterator[RawSentence]:
    """A sentence for every line: its id, a tab, and its text, in which further tabs are white space.

    Raises:
        CorpusError: A line has no tab; a blank one only where they are not skipped.
    """
    for number, line in enumerate(lines, 1):
        identifier, tab, text = line.partition("\t")
        if tab:
            yield RawSentence(number, id=identifier, text=text)
        elif not skip_blank or line.strip():
            raise malformed(source, number, "no tab between id and text")
