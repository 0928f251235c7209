"""CoNLL-U and older CoNLL files: tokens, ids, and the rows they come from."""

import gzip
from functools import partial
from pathlib import Path

import pytest

from pipeline.config import CorpusConfig
from pipeline.errors import ConfigError, CorpusError
from pipeline.records import Sentence
from support.corpora import read_as
from support.paths import shared

CONLLU = """\
# newdoc id = d1
# sent_id = d1-1
# text = Il va au lac.
1\tIl\til\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tva\taller\tVERB\t_\t_\t0\troot\t_\t_
3-4\tau\t_\t_\t_\t_\t_\t_\t_\t_
3\tà\tà\tADP\t_\t_\t5\tcase\t_\t_
4\tle\tle\tDET\t_\t_\t5\tdet\t_\t_
5\tlac\tlac\tNOUN\t_\t_\t2\tobl\t_\tSpaceAfter=No
5.1\tpetit\tpetit\tADJ\t_\t_\t_\t_\t_\t_
6\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_

1\t10 000\t10 000\tNUM\t_\t_\t0\troot\t_\t_

"""


def conllu_rows(*numbers: str) -> str:
    return "".join(f"{number}\tw{number}\t_\tX\t_\t_\t0\troot\t_\t_\n" for number in numbers)


def test_words_of_conllu_with_their_id_and_text(tmp_path: Path) -> None:
    expected = [
        Sentence(
            id="d1-1",
            tokens=("Il", "va", "à", "le", "lac", "."),
            text="Il va au lac.",
            source="a.conllu",
            line=4,
        ),
        Sentence(id="a.conllu:13", tokens=("10 000",), text=None, source="a.conllu", line=13),
    ]
    assert read_as(tmp_path / "f", CONLLU.encode(), "a.conllu") == expected
    windows = CONLLU.replace("\n", "\r\n").rstrip().encode()
    assert read_as(tmp_path / "f", windows, "a.conllu") == expected
    packed = read_as(tmp_path / "f", gzip.compress(CONLLU.encode()), "a.conllu.gz")
    assert [sentence.tokens for sentence in packed] == [sentence.tokens for sentence in expected]


def test_lemmas_of_conllu(tmp_path: Path) -> None:
    sentences = read_as(tmp_path / "f", CONLLU.encode(), "a.conllu", config=CorpusConfig(conllu_column="lemma"))
    assert sentences[0].tokens == ("il", "aller", "à", "le", "lac", ".")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (conllu_rows("1", "2", "1"), "3: the number '1' where 3 comes next; is a blank line missing"),
        (conllu_rows("1", "3"), "2: the number '3' where 2 comes next$"),
        (conllu_rows("2"), "1: the number '2' where 1 comes next$"),
        (conllu_rows("1", "x"), "2: 'x' is no number of a word"),
        (conllu_rows("1") + "2\tb\tc\n", "2: 3 columns with tabs between; CoNLL-U has 10"),
        (conllu_rows("1") + "\n# sent_id = 7\n\n" + conllu_rows("1"), "3: a sentence without words"),
        (conllu_rows("1.1"), "1: a sentence without words"),
        ("# sent_id =\n" + conllu_rows("1"), "2: the id is empty"),
    ],
)
def test_malformed_conllu_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(CorpusError, match=rf"^a\.conllu:{problem}"):
        read_as(tmp_path / "f", text.encode(), "a.conllu")


def test_comments_alone_are_no_sentence(tmp_path: Path) -> None:
    text = "# global.columns = ID FORM\n\n\n" + conllu_rows("1")
    assert [sentence.line for sentence in read_as(tmp_path / "f", text.encode(), "a.conllu")] == [4]


def test_columns_with_tabs(tmp_path: Path) -> None:
    text = "# newdoc id = d\n#\tSYM\n1\tNUM\n\n\n# sent_id = x\na b\tX\n# a remark\nc\tX"
    assert read_as(tmp_path / "f", text.encode(), "a.iob2") == [
        Sentence(id="a.iob2:2", tokens=("#", "1"), text=None, source="a.iob2", line=2),
        Sentence(id="x", tokens=("a b", "c"), text=None, source="a.iob2", line=7),
    ]


def test_columns_with_white_space(tmp_path: Path) -> None:
    text = "# id = 3\n# NN  B-NP\nU.N.   NNP B-NP\n\nalone\n"
    sentences = read_as(tmp_path / "f", text.encode(), "a.conll")
    assert [(sentence.line, sentence.tokens) for sentence in sentences] == [(2, ("#", "U.N.")), (5, ("alone",))]
    second = read_as(tmp_path / "f", b"d 0 a\nd 1 b\n", "a.conll", config=CorpusConfig(conll_column=3))
    assert second[0].tokens == ("a", "b")


def test_numbered_rows_without_a_blank_line_between_sentences_are_refused(tmp_path: Path) -> None:
    refused = partial(read_as, tmp_path / "f", b"1\ta\n2\tb\n1\tc\n", "a.conll")
    with pytest.raises(CorpusError, match=r"^a\.conll:3: the number '1' where 3 comes next; is a blank line missing"):
        refused(config=CorpusConfig(conll_column=2))
    with pytest.raises(CorpusError, match=r"^a\.conll:2: column 1 seems to number the rows; choose the column"):
        refused()
    [sentence] = refused(config=CorpusConfig(conll_column=1))
    assert sentence.tokens == ("1", "2", "1")


def test_numbered_rows_with_blank_lines_are_sentences(tmp_path: Path) -> None:
    sentences = read_as(tmp_path / "f", b"1\ta\n2\tb\n\n1\tc\n", "a.conll", config=CorpusConfig(conll_column=2))
    assert [sentence.tokens for sentence in sentences] == [("a", "b"), ("c",)]


@pytest.mark.parametrize("row", ["b", "b\t", "b\t\tc"])
def test_a_row_without_its_token_is_refused(tmp_path: Path, row: str) -> None:
    with pytest.raises(CorpusError, match=r"^a\.conll:2: no token in column 2"):
        read_as(tmp_path / "f", f"a\tx\n{row}\n".encode(), "a.conll", config=CorpusConfig(conll_column=2))


def test_columns_are_counted_from_one() -> None:
    with pytest.raises(ConfigError, match="CoNLL column 0 is below 1"):
        CorpusConfig(conll_column=0)


@pytest.mark.parametrize(
    ("name", "sentences", "tokens"),
    [
        ("data/pos-ud-english-ewt/dev.tsv", 2001, 25_147),
        ("data/pos-ud-english-ewt/test.tsv", 2077, 25_094),
        ("data/ner-uner-english-ewt/test.iob2", 2077, 25_097),
    ],
)
def test_treebanks_have_their_published_numbers_of_sentences_and_tokens(
    tmp_path: Path, name: str, sentences: int, tokens: int
) -> None:
    config = CorpusConfig(input_format="conll", blank_lines="refuse")
    found = read_as(tmp_path / "f", shared(name).read_bytes(), "a.tsv", config=config)
    assert len(found) == sentences
    assert sum(len(sentence.tokens) for sentence in found) == tokens
