"""Static word vectors from every kind of file, their unknown words, and damaged files."""

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from jobs.encoders.static_vectors import StaticVectorsEncoderFactory, is_static_vectors
from jobs.encoders.vector_files import inspect_file
from jobs.run_dump import run_dump
from pipeline.config import DumpConfig, StoreConfig
from pipeline.encoding import Encoded
from pipeline.errors import ConfigError
from pipeline.reader import FeatureStore

WORDS = ["the", "cat", "na\u00efve", "\u6211", "New York"]
WIDTH = 3
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), WIDTH)).astype(np.float32)


def text_lines(words: list[str], separator: str = " ", end: str = "\n") -> str:
    lines = (separator.join([word, *map(repr, row.tolist())]) + end for word, row in zip(words, VECTORS, strict=False))
    return "".join(lines)


def write(path: Path, kind: str) -> Path:
    if kind == "glove":
        path.write_text(text_lines(WORDS), encoding="utf-8")
    elif kind == "word2vec text":  # the original program leaves a blank behind every vector
        path.write_text(f"{len(WORDS)} {WIDTH}\n" + text_lines(WORDS, end=" \n"), encoding="utf-8")
    elif kind == "vec":
        path.write_text(f"{len(WORDS)} {WIDTH}\n" + text_lines(WORDS), encoding="utf-8")
    else:  # no blanks inside words here
        words = [word.replace(" ", "_") for word in WORDS]
        content = (w.encode() + b" " + row.tobytes() + b"\n" for w, row in zip(words, VECTORS, strict=True))
        path.write_bytes(f"{len(words)} {WIDTH}\n".encode() + b"".join(content))
    return path


def encode(path: Path, sentences: list[list[str]], **options: bool) -> Encoded:
    factory = StaticVectorsEncoderFactory(model=str(path), **options)
    return factory.load(columns=["token"], device="auto", precision="float32", carried_state=False).encode(sentences)


@pytest.mark.parametrize("kind", ["glove", "word2vec text", "vec", "word2vec binary"])
def test_every_format_gives_the_vectors_it_was_written_from(tmp_path: Path, kind: str) -> None:
    if kind == "word2vec binary":
        pytest.importorskip("gensim")
    path = write(tmp_path / "vectors", kind)
    encoded = encode(path, [["cat", "the"], [], ["\u6211", "na\u00efve", "Cat"]])
    np.testing.assert_array_equal(encoded.columns["token"][:4], VECTORS[[1, 0, 3, 2]])
    assert not encoded.columns["token"][4].any() and encoded.counts == {"unknown_words": 1}
    (column,) = StaticVectorsEncoderFactory(model=str(path)).describe().columns
    assert (column.name, column.width, column.layer) == ("token", WIDTH, 0)


def test_words_with_blanks_are_read_from_text(tmp_path: Path) -> None:
    encoded = encode(write(tmp_path / "glove.txt", "glove"), [["New York"]])
    np.testing.assert_array_equal(encoded.columns["token"], VECTORS[4:])


def test_lower_case_look_up_when_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "glove.txt", "glove")
    encoded = encode(path, [["The", "CAT"]], lowercase=True)
    np.testing.assert_array_equal(encoded.columns["token"], VECTORS[:2])
    specs = [StaticVectorsEncoderFactory(model=str(path), lowercase=lower).describe() for lower in (True, False)]
    assert specs[0].numerics != specs[1].numerics and specs[0].model_digest == specs[1].model_digest


def test_the_first_of_repeated_words_counts(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text(text_lines(["the", "cat", "the"]))
    np.testing.assert_array_equal(encode(path, [["the"]]).columns["token"], VECTORS[:1])


@pytest.fixture(scope="module")
def fasttext(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A tiny model in fastText's own format, and its vectors."""
    models = pytest.importorskip("gensim.models.fasttext")
    sentences = [["the", "cat", "sat"], ["the", "dog", "sat"]] * 5
    model = models.FastText(sentences, vector_size=5, min_count=1, bucket=50, epochs=1, workers=1, seed=1)
    path = tmp_path_factory.mktemp("fasttext") / "model.bin"
    models.save_facebook_model(model, str(path))
    return path, model.wv


def test_fasttext_models_compose_unknown_words(fasttext: tuple[Path, Any]) -> None:
    path, vectors = fasttext
    encoded = encode(path, [["cat", "category", "the"]])
    wanted: NDArray[np.float32] = np.stack([vectors["cat"], vectors["category"], vectors["the"]])
    np.testing.assert_allclose(encoded.columns["token"], wanted, atol=1e-6)
    assert encoded.counts == {"composed_words": 1}
    assert StaticVectorsEncoderFactory(model=str(path)).describe().columns[0].width == 5


@pytest.mark.parametrize("share", [0.001, 0.05, 0.1, 0.5, 0.7])
def test_a_cut_fasttext_model_is_refused_at_once(tmp_path: Path, fasttext: tuple[Path, Any], share: float) -> None:
    whole = fasttext[0].read_bytes()
    path = tmp_path / "cut.bin"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ConfigError, match=r"cut\.bin: "):
        encode(path, [["cat"]])


def test_other_fasttext_models_are_refused(tmp_path: Path, fasttext: tuple[Path, Any]) -> None:
    content = bytearray(fasttext[0].read_bytes())
    struct.pack_into("<i", content, 72, 4)  # labels, of a classifier
    (tmp_path / "labels.bin").write_bytes(content)
    with pytest.raises(ConfigError, match="classifier"):
        encode(tmp_path / "labels.bin", [["cat"]])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no file of word vectors"),
        (b"\x00\x01\x02" * 50, "no file of word vectors"),
        (b"the cat sat\n", "no file of word vectors"),
        (b"\x1f\x8b\x08\x00", "unpack it first"),
        (b"the 1 2 3\ncat 1 2\n", "line 2 is not a word and 3 finite numbers"),
        (b"the 1 2 3\ncat 1 nan 3\n", "line 2"),
        (b"the 1 2 3\n1 2 3\n", "line 2"),
        (b"3 3\nthe 1 2 3\ncat 1 2 3\n", "claims 3 words, but it has 2"),
        (b"9000000000 300\n\xff\xfe\x00 rest", "it is cut"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        encode(path, [["the"]])
    assert said in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent: cannot be read"):
        inspect_file(tmp_path / "absent")


def test_what_a_look_up_does_not_have_is_refused(tmp_path: Path) -> None:
    factory = StaticVectorsEncoderFactory(model=str(write(tmp_path / "glove.txt", "glove")))
    with pytest.raises(ConfigError, match="on the CPU"):
        factory.check(device="cuda", precision="float32", carried_state=False)
    with pytest.raises(ConfigError, match="float32"):
        factory.check(device="cpu", precision="bfloat16", carried_state=False)
    with pytest.raises(ConfigError, match="no state"):
        factory.check(device="cpu", precision="float32", carried_state=True)
    assert is_static_vectors(tmp_path / "glove.txt") and not is_static_vectors(tmp_path)
    assert pickle.loads(pickle.dumps(factory)) == factory


def test_a_dump_of_static_vectors_pooled_per_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "glove.txt", "glove")
    lines = (json.dumps({"id": name, "tokens": tokens}) + "\n" for name, tokens in (("a", ["the", "cat"]), ("b", [])))
    (tmp_path / "corpus.jsonl").write_text("".join(lines))
    run_dump(
        [str(tmp_path / "corpus.jsonl")],
        str(tmp_path / "store"),
        encoder=StaticVectorsEncoderFactory(model=str(path)),
        config=DumpConfig(store=StoreConfig(pool="mean,max")),
    )
    store = FeatureStore.open(tmp_path / "store")
    np.testing.assert_allclose(store["a"].column("token_mean"), VECTORS[:2].mean(axis=0), atol=1e-6)
    np.testing.assert_array_equal(store["a"].column("token_max"), VECTORS[:2].max(axis=0))
    assert not store["b"].column("token_mean").any()
