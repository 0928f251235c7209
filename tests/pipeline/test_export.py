import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from pipeline.errors import ConfigError, FailedSentenceError, MissingColumnError
from pipeline.export import convert
from pipeline.reader import FeatureStore
from pipeline.records import Sentence
from pipeline.schema import Column
from pipeline.storage import Folder
from support.paths import GOLDEN
from support.stores import bilm_columns, features_of, make_sentences, write_store

COMMAND = GOLDEN / "seeded" / "base" / "elmo_command"
DUMPS = GOLDEN / "seeded" / "base" / "bilm_dumps"


def store_of_original(folder: Path, lines: list[str], original: Path) -> None:
    """A store with the vectors of a file that an original tool wrote, taken apart into columns."""
    sentences = [
        Sentence(id=f"input.txt:{line}", tokens=tuple(text.split()), text=text, source="input.txt", line=line)
        for line, text in enumerate(lines, 1)
    ]
    with h5py.File(original) as file:
        published = [file[str(number)][:] for number in range(len(sentences))]
    half = published[0].shape[2] // 2
    values = {"token": [layers[0, :, :half] for layers in published]}
    for layer in (1, 2):
        values[f"forward_{layer}"] = [layers[layer, :, :half] for layers in published]
        values[f"backward_{layer}"] = [layers[layer, :, half:] for layers in published]
    write_store(
        Folder(folder),
        [sentences],
        columns=bilm_columns(2, width=half),
        vectors=lambda sentence, column: values[column.name][sentence.line - 1],
    )


def described(path: Path) -> dict[str, tuple[object, ...]]:
    with h5py.File(path) as file:
        return {
            name: (
                dataset.shape,
                dataset.dtype,
                dataset.chunks,
                dataset.compression,
                h5py.check_string_dtype(dataset.dtype),
            )
            for name, dataset in file.items()
        }


@pytest.fixture
def original_lines() -> list[str]:
    text = (COMMAND / "input.txt").read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")


@pytest.mark.parametrize("layers", ["all", "top", "average"])
def test_allennlp_layout_equals_the_command(tmp_path: Path, original_lines: list[str], layers: str) -> None:
    store_of_original(tmp_path / "store", original_lines, COMMAND / "all.hdf5")
    assert convert(tmp_path / "store", tmp_path / "out.hdf5", layout="allennlp", layers=layers) == 10  # type: ignore[arg-type]
    assert described(tmp_path / "out.hdf5") == described(COMMAND / f"{layers}.hdf5")
    with h5py.File(tmp_path / "out.hdf5") as ours, h5py.File(COMMAND / f"{layers}.hdf5") as theirs:
        assert ours["sentence_to_index"][0] == theirs["sentence_to_index"][0]
        for number in range(10):
            np.testing.assert_allclose(ours[str(number)][:], theirs[str(number)][:], rtol=0, atol=1e-6)


def test_bilm_tf_layout_equals_the_dump(tmp_path: Path) -> None:
    lines = (DUMPS / "input.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    store_of_original(tmp_path / "store", lines, DUMPS / "bilm_embeddings.hdf5")
    assert convert(tmp_path / "store", tmp_path / "out.hdf5", layout="bilm-tf") == 7
    assert described(tmp_path / "out.hdf5") == described(DUMPS / "bilm_embeddings.hdf5")
    with h5py.File(tmp_path / "out.hdf5") as ours, h5py.File(DUMPS / "bilm_embeddings.hdf5") as theirs:
        for number in range(7):
            np.testing.assert_array_equal(ours[str(number)][:], theirs[str(number)][:])


def test_half_floats_become_float32_and_token_lists_are_named_by_their_tokens(tmp_path: Path) -> None:
    sentences = [Sentence(id="x", tokens=("a", "b c"), text=None, source="s", line=1), *make_sentences([3])]
    write_store(Folder(tmp_path / "store"), [sentences], columns=bilm_columns(1, width=2), dtype="float16")
    convert(tmp_path / "store", tmp_path / "out.hdf5", layout="allennlp")
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"a b c": "0", "w1é0 w1é1 w1é2": "1"}
        assert file["1"].dtype == np.float32
        np.testing.assert_array_equal(
            file["1"][1, :, 2:], features_of(sentences[1], bilm_columns(1, width=2)[2], "float16").astype(np.float32)
        )


def test_stores_of_top_and_average_give_the_same_as_those_of_all_layers(tmp_path: Path) -> None:
    sentences = make_sentences([2, 0, 3])
    columns = bilm_columns(2, width=2)
    write_store(Folder(tmp_path / "all"), [sentences], columns=columns)
    write_store(Folder(tmp_path / "top"), [sentences], columns=columns[3:], layers="top")
    average = Column(name="average", width=4, layer=None, direction="both", derived="mean")
    full = FeatureStore.open(tmp_path / "all")
    write_store(
        Folder(tmp_path / "average"),
        [sentences],
        columns=[average],
        layers="average",
        vectors=lambda sentence, column: full[sentence.id].layers().mean(axis=0),
    )
    for layers in ("top", "average"):
        for name in ("all", layers):
            convert(tmp_path / name, tmp_path / f"{layers}-{name}.hdf5", layers=layers)
        assert described(tmp_path / f"{layers}-all.hdf5") == described(tmp_path / f"{layers}-{layers}.hdf5")
        with h5py.File(tmp_path / f"{layers}-all.hdf5") as one, h5py.File(tmp_path / f"{layers}-{layers}.hdf5") as two:
            for number in range(3):
                np.testing.assert_array_equal(one[str(number)][:], two[str(number)][:])
        with pytest.raises(MissingColumnError, match=r"written with the layers|both directions"):
            convert(tmp_path / layers, tmp_path / "refused.hdf5", layers="all")
    assert not (tmp_path / "refused.hdf5").exists()


def test_failed_sentences_are_refused_or_left_out_by_name(tmp_path: Path) -> None:
    sentences = make_sentences([1, 2, 3])
    write_store(Folder(tmp_path / "store"), [sentences], columns=bilm_columns(1, width=2), failed=["a.txt:2"])
    with pytest.raises(FailedSentenceError, match=r"1 failed sentences.*first at position 1"):
        convert(tmp_path / "store", tmp_path / "out.hdf5")
    assert convert(tmp_path / "store", tmp_path / "out.hdf5", skip_failed=True) == 2
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert sorted(file) == ["0", "2", "sentence_to_index"]


def test_what_cannot_be_written_is_refused_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_store(Folder(tmp_path / "store"), [make_sentences([1, 2])], columns=bilm_columns(1, width=2))
    with pytest.raises(ConfigError, match="bilm-tf has all layers, not 'top'"):
        convert(tmp_path / "store", tmp_path / "out.hdf5", layout="bilm-tf", layers="top")
    with pytest.raises(ConfigError, match="layout 'elmo' is not one of allennlp, bilm-tf"):
        convert(tmp_path / "store", tmp_path / "out.hdf5", layout="elmo")  # type: ignore[arg-type]
    (tmp_path / "there.hdf5").write_bytes(b"precious")
    with pytest.raises(ConfigError, match="exists already"):
        convert(tmp_path / "store", tmp_path / "there.hdf5")
    assert (tmp_path / "there.hdf5").read_bytes() == b"precious"
    shard = next((tmp_path / "store" / "shards").iterdir())
    shard.write_bytes(shard.read_bytes()[:-4])
    with pytest.raises(Exception, match="the manifest says"):
        convert(tmp_path / "store", tmp_path / "out.hdf5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "there.hdf5"]
