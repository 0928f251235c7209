"""The vocabulary of a model: one word a line, a word's id being its place in the file."""

from collections.abc import Iterable
from pathlib import Path

from elmo_model.characters import BEGIN_SENTENCE, END_SENTENCE
from elmo_model.errors import VocabularyError

UNKNOWN = "<UNK>"
MARKS = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
_IGNORED = "!!!MAXTERMID"  # a line of some published files that takes no id


class Vocabulary:
    """Words and their ids; `<S>`, `</S>` and `<UNK>` are always among them."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._ids = {word: number for number, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            raise VocabularyError("the vocabulary holds a word twice; each word must stand once")
        missing = [mark for mark in MARKS if mark not in self._ids]
        if missing:
            raise VocabularyError(f"the vocabulary lacks {', '.join(missing)}; it must list {', '.join(MARKS)}")
        self.unknown_id = self._ids[UNKNOWN]

    @classmethod
    def read(cls, path: str | Path) -> "Vocabulary":
        """The vocabulary in a UTF-8 file of one word a line.

        Raises:
            VocabularyError: If the file can't be read or decoded, has a blank line, repeats a word, or lacks one of
                the three marks; names the file and the lines.
        """
        try:
            lines = Path(path).read_bytes().split(b"\n")
        except OSError as error:
            raise VocabularyError(f"{path}: can't be read: {error.strerror}") from None
        if lines[-1] == b"":
            lines.pop()
        line_of: dict[str, int] = {}
        for number, line in enumerate(lines, start=1):
            try:
                word = line.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise VocabularyError(f"{path}: line {number}: not UTF-8: {error.reason}") from None
            if word == _IGNORED:
                continue
            if not word:
                raise VocabularyError(f"{path}: line {number} is blank; every line must hold one word")
            if word in line_of:
                raise VocabularyError(f"{path}: {word!r} stands on lines {line_of[word]} and {number}")
            line_of[word] = number
        try:
            return cls(line_of)
        except VocabularyError as error:
            raise VocabularyError(f"{path}: {error}") from None

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def id_of(self, word: str) -> int:
        """The word's id, or that of `<UNK>` for a word that isn't listed."""
        return self._ids.get(word, self.unknown_id)
