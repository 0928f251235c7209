"""Token tables from the command line: written, used in a dump, and kept apart from other models."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from jobs.encoders.bilm import BiLmEncoderFactory
from pipeline.errors import ConfigError
from pipeline.reader import FeatureStore
from support.cli import elmo
from support.paths import GOLDEN

BASE = GOLDEN / "seeded" / "base"
VOCABULARY = BASE / "bilm_dumps" / "vocab.txt"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("the cat .\nHello unseen\n")
    return path


def test_a_dump_with_a_table_gives_the_layers_of_bilm_tf(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, store = tmp_path / "tables" / "tokens.hdf5", tmp_path / "store"
    written = elmo(capsys, "token-table", BASE, VOCABULARY, table)
    assert written.code == 0 and "11 vectors of width 8" in written.out
    options = ("--model", BASE, "--token-table", table, "--vocabulary", VOCABULARY)
    dumped = elmo(capsys, "dump", corpus, store, *options)
    assert dumped.code == 0 and "unknown words: 1" in dumped.out
    features = FeatureStore.open(store)
    with h5py.File(BASE / "bilm_dumps" / "token_id_path.hdf5") as file:
        for line, wanted in enumerate(file["lm_embeddings"][()], start=1):
            found = features[f"corpus.txt:{line}"].layers()
            np.testing.assert_allclose(found, wanted[:, : found.shape[1]], atol=1e-5)


def test_another_table_is_another_model(tmp_path: Path) -> None:
    model = Path(shutil.copytree(BASE, tmp_path / "model"))
    shutil.copy(VOCABULARY, model)
    table = str(shutil.copy(BASE / "bilm_dumps" / "token_embeddings.hdf5", tmp_path / "tokens.hdf5"))
    plain, with_table = BiLmEncoderFactory(model=str(model)), BiLmEncoderFactory(model=str(model), token_table=table)
    before = with_table.describe().model_digest
    assert before != plain.describe().model_digest
    with h5py.File(table, "r+") as file:
        file["embedding"][3] += 1
    assert with_table.describe().model_digest != before


def test_a_table_needs_a_vocabulary_and_a_vocabulary_a_table() -> None:
    table = str(BASE / "bilm_dumps" / "token_embeddings.hdf5")
    with pytest.raises(ConfigError, match="neither given nor in"):
        BiLmEncoderFactory(model=str(BASE), token_table=table).describe()
    with pytest.raises(ConfigError, match="none is given"):
        BiLmEncoderFactory(model=str(BASE), vocabulary=str(VOCABULARY))


def test_other_families_have_no_tables(tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = BASE / "bilm_dumps" / "token_embeddings.hdf5"
    model = GOLDEN / "manylangs" / "char_word_elmo"
    done = elmo(capsys, "dump", corpus, tmp_path / "store", "--model", model, "--token-table", table)
    assert done.code == 2 and "the option is for ELMo" in done.err
