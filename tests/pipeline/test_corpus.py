"""Sentences, with their ids, texts and tokens, as they come out of files."""

import bz2
import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config import CorpusConfig
from pipeline.corpus import corpus_tokenizer, input_format, read_sentences
from pipeline.errors import ConfigError, CorpusError
from pipeline.formats.streams import InputFile
from pipeline.records import Sentence
from pipeline.tokenizers import TokenizedSentence, Tokenizer
from support.corpora import read_as

Read = Callable[..., list[Sentence]]

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: bytes(pa.Codec("zstd").compress(data, asbytes=True)),
}


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads given bytes as a file of a given name."""
    return partial(read_as, tmp_path / "file")


def test_each_line_is_a_sentence_and_blank_ones_keep_their_place(read: Read) -> None:
    counts: Counter[str] = Counter()
    assert read(b" alpha  beta\n\ngamma\n", "x/a.txt", counts=counts) == [
        Sentence(id="x/a.txt:1", tokens=("alpha", "beta"), text=" alpha  beta", source="x/a.txt", line=1),
        Sentence(id="x/a.txt:2", tokens=(), text="", source="x/a.txt", line=2),
        Sentence(id="x/a.txt:3", tokens=("gamma",), text="gamma", source="x/a.txt", line=3),
    ]
    assert counts == {"blank": 1}


def test_blank_lines_can_be_left_out_without_moving_the_others(read: Read) -> None:
    counts: Counter[str] = Counter()
    sentences = read(b"alpha\n \t\ngamma", config=CorpusConfig(blank_lines="skip"), counts=counts)
    assert [sentence.id for sentence in sentences] == ["a.txt:1", "a.txt:3"]
    assert counts == {"blank": 1, "skipped_blank": 1}


def test_blank_lines_can_be_refused(read: Read) -> None:
    with pytest.raises(CorpusError, match=r"^a\.txt:2: a sentence without tokens"):
        read(b"alpha\n\ngamma\n", config=CorpusConfig(blank_lines="refuse"))


def test_only_line_feeds_end_lines(read: Read) -> None:
    windows, unix = read(b"a b\r\n\r\nc\r\n"), read(b"a b\n\nc\n")
    assert windows == unix
    [sentence] = read("a\rb\x0bc\x0cd\x1ce\u2028f\x85g\n".encode())
    assert sentence.tokens == ("a", "b", "c", "d", "e", "f", "g")
    assert sentence.text == "a\rb\x0bc\x0cd\x1ce\u2028f\x85g"
    assert [sentence.text for sentence in read(b"a\r\r\nb\r")] == ["a\r", "b\r"]


def test_a_byte_order_mark_is_no_text(read: Read) -> None:
    assert [sentence.text for sentence in read(b"\xef\xbb\xbfa\n\xef\xbb\xbfb")] == ["a", "\ufeffb"]
    [sentence] = read("a é\n".encode("utf-16"), config=CorpusConfig(encoding="utf-16"))
    assert sentence.tokens == ("a", "é")


def test_a_named_encoding_reads_as_its_utf8_version(read: Read) -> None:
    latin = read(b"caf\xe9\n", config=CorpusConfig(encoding="latin-1"))
    assert latin == read("café\n".encode())


@pytest.mark.parametrize(
    ("data", "encoding", "place"),
    [
        (b"caf\xe9\n", "utf-8", "a.txt:1: byte 0xe9 at offset 3 "),
        ((b"\xc3\xa4" * 999 + b"\n") * 600 + b"b \xff\n", "utf-8", "a.txt:601: byte 0xff at offset 1199402 "),
        ("a\n€".encode()[:-1], "utf-8", "a.txt:2: byte 0xe2 at offset 2 "),
        ("ab\n".encode("utf-16-le") + b"\x00\xdc\n\x00", "utf-16-le", "a.txt:2: byte 0x00 at offset 6 "),
        (b"a\nb\n\x80", "ascii", "a.txt:3: byte 0x80 at offset 4 "),
    ],
)
def test_bytes_that_do_not_decode_are_named(read: Read, data: bytes, encoding: str, place: str) -> None:
    with pytest.raises(CorpusError, match=f"^{place}does not decode as {encoding}"):
        read(data, config=CorpusConfig(encoding=encoding))


def test_text_is_decoded_the_same_in_every_locale(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("café naïve Āda\n".encode())
    script = """if True:
        import sys
        from collections import Counter
        from pathlib import Path
        from pipeline.config import CorpusConfig
        from pipeline.corpus import corpus_tokenizer, read_sentences
        from pipeline.formats.streams import InputFile
        config = CorpusConfig()
        [sentence] = read_sentences(InputFile(name="a.txt", content=Path(sys.argv[1])), config,
                                    tokenizer=corpus_tokenizer(config), counts=Counter())
        print(ascii(sentence.tokens))
    """
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", script, str(tmp_path / "a.txt")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ascii(("café", "naïve", "Āda"))


@pytest.mark.parametrize("suffix", sorted(COMPRESS))
def test_compressed_files_read_as_their_contents(read: Read, suffix: str) -> None:
    lines = "".join(f"line {n} é\n" for n in range(20_000)).encode()
    data = COMPRESS[suffix](lines[:100_000]) + COMPRESS[suffix](lines[100_000:])
    digest = hashlib.sha256()
    compressed = read(data, f"a.txt{suffix}", digest=digest)
    assert [sentence.text for sentence in compressed] == lines.decode().splitlines()
    assert compressed[1].id == f"a.txt{suffix}:2"
    assert digest.hexdigest() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("suffix", sorted(COMPRESS))
@pytest.mark.parametrize("damage", ["cut", "cut near the end", "trailing bytes", "empty"])
def test_a_broken_compressed_file_is_named(read: Read, suffix: str, damage: str) -> None:
    data = COMPRESS[suffix](os.urandom(60_000).hex().encode())
    broken = {
        "cut": data[: len(data) // 2],
        "cut near the end": data[:-3],
        "trailing bytes": data + b"more",
        "empty": b"",
    }[damage]
    with pytest.raises(
        CorpusError, match=rf"^a\.txt\{suffix}: cannot be read (from its start|after line \d+): "
    ) as caught:
        read(broken, f"a.txt{suffix}")
    assert "\n" not in str(caught.value)


def test_damage_to_the_checksum_of_a_gzip_file_is_seen(read: Read) -> None:
    data = bytearray(gzip.compress(b"a b c\n" * 1000))
    data[-6] ^= 1
    with pytest.raises(CorpusError, match=r"^a\.txt\.gz: cannot be read"):
        read(bytes(data), "a.txt.gz")


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        file = InputFile(name="a.txt", content=path)
        with pytest.raises(CorpusError, match=r"^a\.txt: cannot be read from its start: (Is a dir|No such file)"):
            list(read_sentences(file, CorpusConfig(), tokenizer=corpus_tokenizer(CorpusConfig()), counts=Counter()))
        with pytest.raises(CorpusError, match=r"^a\.txt: cannot be read: "):
            file.sha256()


def test_a_very_long_line_is_one_sentence(read: Read) -> None:
    [sentence] = read(b"word " * 500_000)
    assert len(sentence.tokens) == 500_000


def test_an_id_and_a_tab_before_the_text(read: Read) -> None:
    assert read(b" id 1 \ta b\tc\nx:9\t\n", "a.tsv") == [
        Sentence(id=" id 1 ", tokens=("a", "b", "c"), text="a b\tc", source="a.tsv", line=1),
        Sentence(id="x:9", tokens=(), text="", source="a.tsv", line=2),
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"1\ta\nb\n", "a.tsv:2: no tab between id and text"),
        (b"1\ta\n\n2\tb\n", "a.tsv:2: no tab between id and text"),
        (b"1\ta\n\tb\n", "a.tsv:2: the id is empty"),
    ],
)
def test_lines_without_tab_or_id_are_refused(read: Read, data: bytes, problem: str) -> None:
    with pytest.raises(CorpusError, match=f"^{problem}"):
        read(data, "a.tsv")


def test_blank_lines_between_ids_can_be_skipped(read: Read) -> None:
    sentences = read(b"1\ta\n\n2\tb\n", "a.tsv", config=CorpusConfig(blank_lines="skip"))
    assert [(sentence.id, sentence.line) for sentence in sentences] == [("1", 1), ("2", 3)]


def test_json_lines_give_text_or_tokens(read: Read) -> None:
    lines = [
        {"id": "x", "text": "a  b"},
        {"id": 17, "tokens": ["a b", "", "c\0d", "e\nf", "g\r"], "other": [1]},
        {"tokens": [], "text": "beside"},
        {"text": "\u2028\ttext"},
    ]
    data = "\n\n".join(json.dumps(line) for line in lines).encode()
    assert read(data, "a.jsonl") == [
        Sentence(id="x", tokens=("a", "b"), text="a  b", source="a.jsonl", line=1),
        Sentence(id="17", tokens=("a b", "", "c\0d", "e\nf", "g\r"), text=None, source="a.jsonl", line=3),
        Sentence(id="a.jsonl:5", tokens=(), text="beside", source="a.jsonl", line=5),
        Sentence(id="a.jsonl:7", tokens=("text",), text="\u2028\ttext", source="a.jsonl", line=7),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "x", "text": ', "not a JSON value"),
        ("[" * 100_000, "not a JSON value"),
        ('["a", "b"]', "expected an object such as .*, found a list"),
        ('"the cat"', r'expected an object such as \{"text": "a b"\}, found a str'),
        ('{"id": "x"}', "neither 'text' nor 'tokens'"),
        ('{"tokens": "the cat"}', r"""'tokens' is 'the cat', not a list of strings such as \["a", "b"\]"""),
        ('{"tokens": ["a", 1]}', "'tokens' is .*, not a list of strings"),
        ('{"text": ["a"]}', r"'text' is \['a'\], not a string"),
        ('{"id": true, "text": "a"}', "'id' is True, not a string"),
        ('{"id": 1.5, "text": "a"}', "'id' is 1.5, not a string"),
        ('{"id": "", "text": "a"}', "the id is empty"),
        ('{"id": "a\\ud800", "text": "a"}', "the id .* has a lone surrogate"),
    ],
)
def test_malformed_json_lines_are_refused(read: Read, line: str, problem: str) -> None:
    with pytest.raises(CorpusError, match=rf"^a\.jsonl:2: {problem}") as caught:
        read(f'{{"text": "fine"}}\n{line}\n'.encode(), "a.jsonl")
    assert len(str(caught.value)) < 300


def test_spans_are_read_if_their_column_is_named(read: Read) -> None:
    data = b'{"tokens": ["a", "b", "c"], "spans": [[0, 2], [2, 3], [0, 2]]}\n{"text": "d", "spans": []}\n'
    counts: Counter[str] = Counter()
    sentences = read(data, "a.jsonl", config=CorpusConfig(spans_column="spans"), counts=counts)
    assert [sentence.spans for sentence in sentences] == [((0, 2), (2, 3), (0, 2)), ()]
    assert counts["spans"] == 3
    assert [sentence.spans for sentence in read(data, "a.jsonl")] == [(), ()]


@pytest.mark.parametrize(
    ("spans", "problem"),
    [
        ("[[0, 3]]", r"the span \[0, 3\] is not within the 2 tokens"),
        ("[[0, 1], [1, 1]]", r"the span \[1, 1\] is not within"),
        ("[[-1, 1]]", r"the span \[-1, 1\] is not within"),
        ("[[0]]", "'spans' is .* not a list of spans such as"),
        ("[[0, 1.0]]", "'spans' is .* not a list of spans"),
        ("[[false, true]]", "'spans' is .* not a list of spans"),
        ("[0, 1]", "'spans' is .* not a list of spans"),
        ("null", "'spans' is None, not a list of spans"),
    ],
)
def test_spans_that_are_not_within_their_sentence_are_refused(read: Read, spans: str, problem: str) -> None:
    data = f'{{"text": "a", "spans": []}}\n{{"text": "a b", "spans": {spans}}}\n'.encode()
    with pytest.raises(CorpusError, match=rf"^a\.jsonl:2: {problem}"):
        read(data, "a.jsonl", config=CorpusConfig(spans_column="spans"))


def test_spans_need_tokens_and_a_format_that_has_them(read: Read) -> None:
    config = CorpusConfig(spans_column="spans")
    with pytest.raises(CorpusError, match=r"^a\.jsonl:1: 'spans' is None"):
        read(b'{"text": "a b"}\n', "a.jsonl", config=config)
    with pytest.raises(CorpusError, match=r"^a\.txt: spans are read from JSON lines and tables, not from .* text"):
        read(b"a b\n", config=config)
    stops = Tokenizer(name="stops", version="stops 1", split=at_full_stops)
    with pytest.raises(CorpusError, match=r"^a\.jsonl:1: spans count tokens, which stops has yet to make"):
        read(b'{"text": "a b. c", "spans": [[0, 1]]}\n', "a.jsonl", config=config, tokenizer=stops)


def test_lone_surrogates_are_dropped_and_counted(read: Read) -> None:
    counts: Counter[str] = Counter()
    data = b'{"text": "a\\ud800b \\udfff \\ud83d\\ude00"}\n{"tokens": ["\\udc00", "x\\ud800", "\\ud800", "\\udc00"]}\n'
    texts, tokens = read(data, "a.jsonl", counts=counts)
    assert texts.text == "ab  😀"
    assert texts.tokens == ("ab", "😀")
    assert tokens.tokens == ("", "x", "", "")
    assert counts == {"dropped_surrogates": 6}


def test_tokens_that_look_like_boundary_marks_are_kept(read: Read) -> None:
    sentences = read(b'{"text": "<S> a </S> </S>x"}\n{"tokens": ["</S>", "b"]}\n', "a.jsonl")
    assert [sentence.tokens for sentence in sentences] == [("<S>", "a", "</S>", "</S>x"), ("</S>", "b")]


def at_full_stops(line: str) -> list[TokenizedSentence]:
    return [TokenizedSentence(part.strip(), part.split()) for part in line.split(".") if part.strip()]


def test_sentences_that_a_tokenizer_finds_are_numbered_even_if_single(read: Read) -> None:
    tokenizer = Tokenizer(name="stops", version="stops 1", split=at_full_stops)
    data = b'{"text": "a b. c."}\n{"id": "x", "text": "d"}\n{"id": "y", "tokens": ["e. f."]}\n{"text": " "}\n'
    sentences = read(data, "a.jsonl", tokenizer=tokenizer)
    assert [(sentence.id, sentence.text, sentence.tokens) for sentence in sentences] == [
        ("a.jsonl:1#1", "a b", ("a", "b")),
        ("a.jsonl:1#2", "c", ("c",)),
        ("x#1", "d", ("d",)),
        ("y", None, ("e. f.",)),
        ("a.jsonl:4#1", "", ()),
    ]


def test_an_unknown_tokenizer_is_a_setting_error() -> None:
    with pytest.raises(ConfigError, match="nonsense"):
        corpus_tokenizer(CorpusConfig(tokenizer="nonsense"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.txt", "text"),
        ("a", "text"),
        ("x.tsv/a", "text"),
        ("a.TSV", "tsv"),
        ("a.jsonl.gz", "jsonl"),
        ("a.ndjson.zst", "jsonl"),
        ("a.tsv.bz2", "tsv"),
    ],
)
def test_the_format_goes_by_the_name_unless_it_is_chosen(name: str, expected: str) -> None:
    assert input_format(name, CorpusConfig()) == expected
    assert input_format(name, CorpusConfig(input_format="text")) == "text"


@settings(deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), min_size=1))
def test_any_lines_come_back_as_they_are(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    texts[0] = texts[0].removeprefix("\ufeff")
    path = tmp_path_factory.mktemp("corpus") / "a.txt"
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())
    config = CorpusConfig()
    file = InputFile(name="a.txt", content=path)
    sentences = list(read_sentences(file, config, tokenizer=corpus_tokenizer(config), counts=Counter()))
    assert [sentence.text for sentence in sentences] == [text.removesuffix("\r") for text in texts]
    assert [sentence.line for sentence in sentences] == list(range(1, len(texts) + 1))
    assert [sentence.tokens for sentence in sentences] == [tuple(text.split()) for text in texts]
