"""The `.dic` files of ELMoForManyLangs: tokens or characters and the rows of their vectors."""

from collections.abc import Mapping
from pathlib import Path

from elmo_model.errors import VocabularyError

BEGIN_SENTENCE, END_SENTENCE = "<bos>", "<eos>"
BEGIN_WORD, END_WORD = "<bow>", "<eow>"
UNKNOWN, PADDING = "<oov>", "<pad>"

_IDEOGRAPHIC_SPACE = "\u3000"


class Dictionary:
    """Entries and their ids; what isn't listed has the id of `<oov>`.

    Attributes:
        ids: Id of each entry.
        unknown_id: The id of `<oov>`.
    """

    def __init__(self, ids: Mapping[str, int], *, required: tuple[str, ...]) -> None:
        missing = [entry for entry in required if entry not in ids]
        if missing:
            raise VocabularyError(f"lacks the entries {', '.join(missing)}")
        self.ids = dict(ids)
        self.unknown_id = self.ids[UNKNOWN]
        beyond = next((entry for entry, number in self.ids.items() if not 0 <= number < len(self.ids)), None)
        if beyond is not None:
            raise VocabularyError(
                f"entry {beyond!r} has id {self.ids[beyond]}; with {len(self.ids)} entries, ids must be "
                f"0 to {len(self.ids) - 1}"
            )

    @classmethod
    def read_words(cls, path: str | Path) -> "Dictionary":
        """The dictionary of words; `<oov>` and `<pad>` are among them.

        Raises:
            VocabularyError: If the file can't be read or decoded, a line isn't `WORD<TAB>ID`, an id is out of range,
                or an entry is missing; names the file, and the line where there is one.
        """
        return cls._read(Path(path), (UNKNOWN, PADDING))

    @classmethod
    def read_characters(cls, path: str | Path) -> "Dictionary":
        """The dictionary of characters, with all six marks.

        Raises:
            VocabularyError: As `read_words`.
        """
        return cls._read(Path(path), (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN, PADDING, BEGIN_WORD, END_WORD))

    @classmethod
    def _read(cls, path: Path, required: tuple[str, ...]) -> "Dictionary":
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise VocabularyError(f"{path}: can't be read: {error.strerror}") from None
        if lines[-1] == b"":
            lines.pop()
        ids: dict[str, int] = {}
        for number, line in enumerate(lines, start=1):
            try:
                entry, identity = _parse(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise VocabularyError(f"{path}: line {number}: not UTF-8: {error.reason}") from None
            except ValueError:
                raise VocabularyError(
                    f"{path}: line {number} is {line.decode('utf-8')[:60]!r}; it must be an entry, a tab and its id"
                ) from None
            ids[entry] = identity
        try:
            return cls(ids, required=required)
        except VocabularyError as error:
            raise VocabularyError(f"{path}: {error}") from None

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, entry: str) -> bool:
        return entry in self.ids

    def id_of(self, entry: str) -> int:
        """The entry's id, or that of `<oov>`."""
        return self.ids.get(entry, self.unknown_id)


def _parse(line: str) -> tuple[str, int]:
    """The entry and id of a line, as the original program reads it.

    It strips the line, so an entry that is white space itself vanishes; all of those become U+3000, the last one wins.
    """
    *entry, identity = line.strip().split("\t")
    if len(entry) > 1 or not identity.isascii() or not identity.isdecimal():
        raise ValueError
    return (entry[0] if entry else _IDEOGRAPHIC_SPACE), int(identity)
