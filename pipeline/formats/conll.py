"""One token a line in columns, with a blank line after each sentence: CoNLL-U, and the older CoNLL formats."""

from collections.abc import Callable, Iterable, Iterator

from pipeline.formats.base import RawSentence, malformed

CONLLU_COLUMNS = {"form": 1, "lemma": 2}

_CONLLU_WIDTH = 10

# A line of the file with its number.
_Line = tuple[int, str]


def parse_conllu(lines: Iterable[str], *, source: str, column: str) -> Iterator[RawSentence]:
    """A sentence for every block of rows: the words of a column, the `sent_id` as id and the `text` as text.

    The tokens are the syntactic words, numbered 1, 2, ...; ranges such as `3-4` and empty nodes such as `5.1` are none.

    Args:
        lines: Of the file.
        source: Its name, for errors.
        column: `form` or `lemma`.

    Raises:
        CorpusError: A row has not ten columns, its number is not the next one, or a block has an id and no rows.
    """
    for comments, rows in _blocks(lines, is_comment=lambda line: line.startswith("#")):
        tokens: list[str] = []
        for number, row in rows:
            cells = row.split("\t")
            if len(cells) != _CONLLU_WIDTH:
                raise malformed(source, number, f"{len(cells)} columns with tabs between; CoNLL-U has {_CONLLU_WIDTH}")
            if cells[0].isdecimal():
                _check_index(cells[0], len(tokens) + 1, source, number)
                tokens.append(cells[CONLLU_COLUMNS[column]])
            elif not cells[0].replace("-", "", 1).replace(".", "", 1).isdecimal():
                raise malformed(source, number, f"{cells[0]!r} is no number of a word")
        yield from _sentence(comments, rows, tokens, source)


def parse_conll(lines: Iterable[str], *, source: str, token_column: int | None) -> Iterator[RawSentence]:
    """A sentence for every block of rows: the tokens of a column; the `sent_id` of a comment as id, if there is one.

    Columns are separated by tabs where a row has them, else by white space. A line that begins with `#` is a comment if
    it has no tab and either has ` = ` or stands among rows with tabs.

    Args:
        lines: Of the file.
        source: Its name, for errors.
        token_column: Counted from 1; None is 1, but refused where that column seems to number the rows.

    Raises:
        CorpusError: A row has too few columns, or the numbers in the first column start again within a block.
    """
    with_tabs = False

    def is_comment(line: str) -> bool:
        nonlocal with_tabs
        if "\t" in line:
            with_tabs = True
            return False
        return line.startswith("#") and (with_tabs or " = " in line)

    position = (token_column or 1) - 1
    for comments, rows in _blocks(lines, is_comment=is_comment):
        tokens: list[str] = []
        numbered = False
        for number, row in rows:
            cells = row.split("\t") if "\t" in row else row.split()
            if len(cells) <= position or not cells[position]:
                raise malformed(source, number, f"no token in column {position + 1}")
            if not tokens:
                numbered = position > 0 and cells[0] == "1"
            elif numbered:
                _check_index(cells[0], len(tokens) + 1, source, number)
            elif token_column is None and len(cells) > 1 and (tokens, cells[0]) == (["1"], "2"):
                advice = "choose the column of the tokens, or 1 if these are the tokens"
                raise malformed(source, number, f"column 1 seems to number the rows; {advice}")
            tokens.append(cells[position])
        yield from _sentence(comments, rows, tokens, source)


def _check_index(cell: str, expected: int, source: str, number: int) -> None:
    if cell != str(expected):
        missing = "; is a blank line missing between two sentences?" if cell == "1" else ""
        raise malformed(source, number, f"the number {cell!r} where {expected} comes next{missing}")


def _blocks(lines: Iterable[str], *, is_comment: Callable[[str], bool]) -> Iterator[tuple[list[_Line], list[_Line]]]:
    """The comments and the rows of each block of lines between blank ones."""
    comments: list[_Line] = []
    rows: list[_Line] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            if comments or rows:
                yield comments, rows
            comments, rows = [], []
        elif is_comment(line):
            comments.append((number, line))
        else:
            rows.append((number, line))
    if comments or rows:
        yield comments, rows


def _sentence(comments: list[_Line], rows: list[_Line], tokens: list[str], source: str) -> Iterator[RawSentence]:
    identifier, text = _comment(comments, "sent_id"), _comment(comments, "text")
    if tokens:
        yield RawSentence(rows[0][0], id=identifier, text=text, tokens=tokens)
    elif rows or identifier is not None:
        raise malformed(source, (rows or comments)[0][0], "a sentence without words")


def _comment(comments: list[_Line], key: str) -> str | None:
    for _, comment in comments:
        name, equals, value = comment.removeprefix("#").partition("=")
        if equals and name.strip() == key:
            return value.strip()
    return None
