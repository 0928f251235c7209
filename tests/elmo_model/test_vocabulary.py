from pathlib import Path

import pytest

from elmo_model.errors import VocabularyError
from elmo_model.vocabulary import Vocabulary


def write(folder: Path, content: bytes) -> Path:
    path = folder / "vocab.txt"
    path.write_bytes(content)
    return path


def test_ids_are_places_in_the_file_wherever_the_marks_stand(tmp_path: Path) -> None:
    vocabulary = Vocabulary.read(write(tmp_path, "the\n<UNK>\r\nĀda \n<S>\n!!!MAXTERMID\n</S>".encode()))
    assert vocabulary.words == ("the", "<UNK>", "Āda", "<S>", "</S>")
    assert [vocabulary.id_of(word) for word in ("Āda", "</S>", "absent")] == [2, 4, 1]
    assert "Āda" in vocabulary
    assert len(vocabulary) == 5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<S>\n</S>\nthe\n", "lacks <UNK>"),
        (b"<S>\n</S>\n<UNK>\n\nthe\n", "line 4 is blank"),
        (b"<S>\n</S>\n<UNK>\nthe\na\nthe\n", "'the' stands on lines 4 and 6"),
        (b"<S>\n</S>\n<UNK>\ncaf\xe9\n", "line 4: not UTF-8"),
        (b"", "lacks <S>, </S>, <UNK>"),
    ],
)
def test_a_broken_file_is_refused_with_its_lines(content: bytes, said: str, tmp_path: Path) -> None:
    path = write(tmp_path, content)
    with pytest.raises(VocabularyError, match=said) as caught:
        Vocabulary.read(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="nowhere"):
        Vocabulary.read(tmp_path / "nowhere")


def test_words_given_twice_are_refused() -> None:
    with pytest.raises(VocabularyError, match="twice"):
        Vocabulary(["<S>", "</S>", "<UNK>", "a", "a"])
