"""FASTA files: one token a residue, ids by the chosen rule."""

import gzip
from pathlib import Path

import pytest

from pipeline.config import CorpusConfig, FastaId
from pipeline.errors import ConfigError, CorpusError
from pipeline.records import Sentence
from support.corpora import read_as

TWO = b">sp|P1|ONE_HUMAN first one\nMKv\nL*\n\n>sp|Q2|TWO\n"


def test_records_are_sentences_of_residues(tmp_path: Path) -> None:
    expected = [
        Sentence(id="sp|P1|ONE_HUMAN", tokens=("M", "K", "v", "L", "*"), text=None, source="a.fasta", line=1),
        Sentence(id="sp|Q2|TWO", tokens=(), text=None, source="a.fasta", line=5),
    ]
    assert read_as(tmp_path / "f", TWO, "a.fasta") == expected
    assert read_as(tmp_path / "f", TWO.replace(b"\n", b"\r\n"), "a.fasta") == expected
    assert [s.tokens for s in read_as(tmp_path / "f", gzip.compress(TWO), "a.fa.gz")] == [s.tokens for s in expected]


@pytest.mark.parametrize(
    ("rule", "ids"),
    [
        ("word", ["sp|P1|ONE_HUMAN", "sp|Q2|TWO"]),
        ("line", ["sp|P1|ONE_HUMAN first one", "sp|Q2|TWO"]),
        ("accession", ["P1", "Q2"]),
    ],
)
def test_the_id_is_the_chosen_part_of_the_header(tmp_path: Path, rule: FastaId, ids: list[str]) -> None:
    sentences = read_as(tmp_path / "f", TWO, "a.faa", config=CorpusConfig(fasta_id=rule))
    assert [sentence.id for sentence in sentences] == ids


def test_a_long_protein_is_one_sentence(tmp_path: Path) -> None:
    lines = b"\n".join([b"ACDEFGHIKLMNPQRSTVWY" * 3] * 584)
    [sentence] = read_as(tmp_path / "f", b">titin\n" + lines, "a.fasta")
    assert len(sentence.tokens) == 35_040


@pytest.mark.parametrize(
    ("data", "rule", "problem"),
    [
        (b"MKV\n>a\nMK\n", "word", "1: a sequence before the first header"),
        (b">a\nMK\nM1K\n", "word", "3: '1' is no residue"),
        (b">a\nMK\n; remark\n", "word", "3: ';' is no residue"),
        (b">a\nMK\n> \nMK\n", "word", r"3: the header '> ' has no id by the rule 'word'"),
        (b">a\nMK\n>b|c\nMK\n", "accession", r"1: the header '>a' has no id by the rule 'accession'"),
    ],
)
def test_malformed_records_are_refused(tmp_path: Path, data: bytes, rule: FastaId, problem: str) -> None:
    with pytest.raises(CorpusError, match=rf"^a\.fasta:{problem}"):
        read_as(tmp_path / "f", data, "a.fasta", config=CorpusConfig(fasta_id=rule))


def test_records_without_residues_can_be_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^a\.fasta:5: a sentence without tokens"):
        read_as(tmp_path / "f", TWO, "a.fasta", config=CorpusConfig(blank_lines="refuse"))


def test_an_unknown_rule_is_a_setting_error() -> None:
    with pytest.raises(ConfigError, match="FASTA id 'gene' is not one of word, line, accession"):
        CorpusConfig(fasta_id="gene")  # type: ignore[arg-type]
