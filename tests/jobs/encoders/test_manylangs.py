"""ELMoForManyLangs models through the whole dump, and what they refuse."""

import json
import pickle
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from jobs.encoders.manylangs import ManyLangsEncoderFactory, is_manylangs
from jobs.run_dump import run_dump
from pipeline.config import DumpConfig, EncodeConfig, StoreConfig
from pipeline.errors import ConfigError
from pipeline.reader import FeatureStore
from support.cli import elmo_process
from support.malicious import Malicious
from support.paths import GOLDEN

MANYLANGS = GOLDEN / "manylangs"
MODELS = ["char_only_elmo", "char_word_elmo_legacy_cuda", "char_word_lstm_encoder"]


def expected(model: str) -> tuple[list[list[str]], list[NDArray[np.float64]]]:
    """The golden sentences, and what the original gives for each alone."""
    folder = MANYLANGS / ("char_word_elmo" if "legacy" in model else model)
    with h5py.File(folder / "expected.h5") as file:
        sentences = [sentence["tokens"] for sentence in json.loads(file.attrs["sentences"])]
        return sentences, [file["alone_float64"][name][()] for name in sorted(file["alone_float64"])]


@pytest.mark.parametrize("model", MODELS)
def test_a_dump_holds_the_layers_of_the_original(tmp_path: Path, model: str) -> None:
    sentences, wanted = expected(model)
    lines = (json.dumps({"id": str(n), "tokens": tokens}) + "\n" for n, tokens in enumerate(sentences))
    (tmp_path / "corpus.jsonl").write_text("".join(lines))
    manifest = run_dump(
        [str(tmp_path / "corpus.jsonl")],
        str(tmp_path / "store"),
        encoder=ManyLangsEncoderFactory(model=str(MANYLANGS / model)),
        config=DumpConfig(encode=EncodeConfig(batch_tokens=100), store=StoreConfig(shard_tokens=60)),
    )
    store = FeatureStore.open(tmp_path / "store")
    for number, layers in enumerate(wanted):
        found = store[str(number)].layers()
        np.testing.assert_allclose(found, layers if layers.ndim == 3 else layers[None], atol=1e-5)
    assert manifest.counts["unknown_characters"] > 0 and manifest.counts["truncated_tokens"] > 0


def test_the_description_needs_no_weights_in_memory_and_travels() -> None:
    factory = ManyLangsEncoderFactory(model=str(MANYLANGS / "clip_3layer_elmo"))
    spec = pickle.loads(pickle.dumps(factory)).describe()
    assert [column.name for column in spec.columns] == [
        "token",
        *(f"{way}_{layer}" for layer in (1, 2, 3) for way in ("forward", "backward")),
    ]
    assert spec == factory.describe() and len(pickle.dumps(factory)) < 1000


def test_folding_changes_the_fingerprint() -> None:
    folder = str(MANYLANGS / "char_word_elmo")
    plain, folding = (ManyLangsEncoderFactory(model=folder, fold_full_width=fold).describe() for fold in (False, True))
    assert plain.model_digest == folding.model_digest and plain.numerics != folding.numerics


def test_the_lstm_encoder_has_one_column_and_neither_state_nor_other_precisions() -> None:
    factory = ManyLangsEncoderFactory(model=str(MANYLANGS / "char_word_lstm_encoder"))
    (column,) = factory.describe().columns
    assert (column.name, column.width, column.layer, column.direction) == ("output", 20, 2, "both")
    with pytest.raises(ConfigError, match="float32 only"):
        factory.check(device="cpu", precision="bfloat16", carried_state=False)
    with pytest.raises(ConfigError, match="never had any"):
        factory.check(device="cpu", precision="float32", carried_state=True)


def test_the_family_is_told_by_its_files(tmp_path: Path) -> None:
    assert is_manylangs(MANYLANGS / "word_only_elmo") and not is_manylangs(GOLDEN / "seeded" / "base")
    (tmp_path / "word.dic").touch()
    assert is_manylangs(tmp_path)


def test_the_command_says_which_network_config_stands_for_a_dead_path(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("the fox\n")
    model = MANYLANGS / "char_only_elmo"
    done = elmo_process("dump", tmp_path / "corpus.txt", tmp_path / "store", "--model", model, "--dry-run")
    assert done.code == 0 and done.err.count("/home/nobody/projects/conll2018/configs/cnn_tiny.json") == 1
    assert str(model / "cnn_tiny.json") in done.err


def test_the_command_refuses_a_malicious_model_in_one_line(tmp_path: Path) -> None:
    model = Path(shutil.copytree(MANYLANGS / "char_word_elmo", tmp_path / "model"))
    torch.save({"weight": Malicious(tmp_path / "victim")}, model / "encoder.pkl")
    (tmp_path / "corpus.txt").write_text("the fox\n")
    done = elmo_process("dump", tmp_path / "corpus.txt", tmp_path / "store", "--model", model)
    assert done.code == 2 and len(done.err.splitlines()) == 1 and "encoder.pkl: refused" in done.err
    assert not (tmp_path / "victim").exists() and not (tmp_path / "store").exists()
