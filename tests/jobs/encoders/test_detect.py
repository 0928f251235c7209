import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from jobs.encoders.bilm import BiLmEncoderFactory
from jobs.encoders.detect import encoder_factory
from jobs.encoders.manylangs import ManyLangsEncoderFactory
from jobs.encoders.static_vectors import StaticVectorsEncoderFactory
from jobs.encoders.transformer import TransformerEncoderFactory
from pipeline.encoding import EncoderFactory
from pipeline.errors import ConfigError
from support.paths import GOLDEN

ELMO = GOLDEN / "seeded" / "base"
MANYLANGS = GOLDEN / "manylangs" / "char_word_elmo"


def detected(model: Path, **options: Any) -> EncoderFactory:
    return encoder_factory(str(model), **{"kernel": "auto", "threads": 1, **options})


@pytest.fixture
def transformer(tmp_path: Path) -> Path:
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    return folder


def test_each_family_is_told_by_its_files(tmp_path: Path, transformer: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("the 1 2\n")
    assert isinstance(detected(ELMO), BiLmEncoderFactory)
    assert isinstance(detected(MANYLANGS), ManyLangsEncoderFactory)
    assert isinstance(detected(transformer), TransformerEncoderFactory)
    assert isinstance(detected(vectors), StaticVectorsEncoderFactory)


def test_a_folder_of_two_families_is_named_as_such(tmp_path: Path) -> None:
    mixed = Path(shutil.copytree(MANYLANGS, tmp_path / "mixed"))
    shutil.copy(ELMO / "weights.hdf5", mixed)
    with pytest.raises(ConfigError, match=r"several models, ELMo .* and ELMoForManyLangs"):
        detected(mixed)


def test_a_folder_without_a_model_is_told_what_models_look_like(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"no model that is known: ELMo .*hdf5.*encoder\.pkl.*safetensors"):
        detected(tmp_path)


def test_an_absent_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent: no such file or folder"):
        detected(tmp_path / "absent")


def test_options_go_to_their_family_and_are_refused_by_others(transformer: Path) -> None:
    assert detected(MANYLANGS, fold_full_width=True) == ManyLangsEncoderFactory(
        model=str(MANYLANGS), fold_full_width=True
    )
    assert detected(transformer, pieces="first") == TransformerEncoderFactory(model=str(transformer), pieces="first")
    for model, options in (
        (ELMO, {"fold_full_width": True}),
        (ELMO, {"lowercase": True}),
        (MANYLANGS, {"pieces": "mean"}),
        (transformer, {"kernel": "plain"}),
    ):
        with pytest.raises(ConfigError, match="the option is for"):
            detected(model, **options)
