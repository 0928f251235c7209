import copy
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from elmo_model.errors import OptionsError
from elmo_model.manylangs.options import options_from_mapping, read_options
from support.paths import GOLDEN

MANYLANGS = GOLDEN / "manylangs"
NETWORK: dict[str, Any] = json.loads((MANYLANGS / "char_word_elmo" / "cnn_tiny.json").read_text())


def changed(section: str, **values: Any) -> dict[str, Any]:
    network = copy.deepcopy(NETWORK)
    network[section] |= values
    return network


def folder_with(tmp_path: Path, config_path: object) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"config_path": config_path, "seed": 1}))
    return tmp_path


def test_a_clip_of_zero_or_null_is_none() -> None:
    for value in (0, None):
        lstm = options_from_mapping(changed("encoder", cell_clip=value, proj_clip=value)).lstm
        assert lstm.cell_clip is None and lstm.proj_clip is None
    assert options_from_mapping(changed("encoder", cell_clip=0.5)).lstm.cell_clip == 0.5


@pytest.mark.parametrize(
    ("section", "values", "said"),
    [
        ("encoder", {"name": "Elmo"}, "encoder.name is 'Elmo'; it must be 'elmo' or 'lstm'"),
        ("encoder", {"dim": 0}, "encoder.dim is 0"),
        ("encoder", {"dim": None}, "encoder.dim is missing"),
        ("encoder", {"n_layers": True}, "encoder.n_layers is True"),
        ("encoder", {"cell_clip": -1}, "encoder.cell_clip is -1"),
        ("encoder", {"cell_clip": float("inf")}, "encoder.cell_clip is inf"),
        ("token_embedder", {"name": "lstm"}, "never ran in the original program"),
        ("token_embedder", {"word_dim": 0, "char_dim": 0}, "both 0"),
        ("token_embedder", {"activation": "gelu"}, "activation is 'gelu'"),
        ("token_embedder", {"filters": []}, "filters is empty"),
        ("token_embedder", {"filters": [[21, 4]]}, "[21, 4]"),
        ("token_embedder", {"filters": [[2, "4"]]}, "list of [width, count]"),
        ("token_embedder", {"max_characters_per_token": 6}, "at least 7"),
    ],
)
def test_unusable_values_are_refused_by_name(section: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionsError) as caught:
        options_from_mapping(changed(section, **values))
    assert said in str(caught.value)


def test_missing_sections_are_refused() -> None:
    with pytest.raises(OptionsError, match="token_embedder is missing"):
        options_from_mapping({"encoder": NETWORK["encoder"]})


def test_without_characters_filters_and_highways_do_not_count() -> None:
    embedder = options_from_mapping(changed("token_embedder", char_dim=0)).embedder
    assert embedder.filters == () and embedder.n_highway == 0 and embedder.max_characters == 20


def test_the_path_inside_the_folder_comes_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = folder_with(tmp_path, "configs/net.json")
    (folder / "configs").mkdir()
    (folder / "configs" / "net.json").write_text(json.dumps(changed("encoder", dim=99)))
    (folder / "net.json").write_text(json.dumps(NETWORK))
    assert read_options(folder).lstm.dim == 99
    assert not caplog.records


@pytest.mark.parametrize(
    "dead", ["/users4/somebody/configs/net.json", "C:\\work\\configs\\net.json", "../cfg/net.json"]
)
def test_a_dead_path_is_replaced_by_the_file_of_that_name_and_said(
    tmp_path: Path, dead: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = folder_with(tmp_path, dead)
    (folder / "net.json").write_text(json.dumps(NETWORK))
    with caplog.at_level(logging.WARNING):
        assert read_options(folder).lstm.dim == NETWORK["encoder"]["dim"]
    assert repr(dead) in caplog.text and str(folder / "net.json") in caplog.text


def test_a_path_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "net.json").write_text(json.dumps(NETWORK))
    for path in ("../net.json", str(tmp_path / "net.json")):
        with pytest.raises(OptionsError, match="copy the network config"):
            read_options(folder_with(folder, path))


@pytest.mark.parametrize("name", ["cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json"])
def test_the_usual_config_is_built_in(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    options = read_options(folder_with(tmp_path, f"/somewhere/configs/{name}"))
    assert "built-in" in caplog.text
    assert (options.lstm.dim, options.lstm.projection_dim, options.lstm.n_layers) == (4096, 512, 2)
    assert (options.lstm.cell_clip, options.lstm.proj_clip) == (3.0, 3.0)
    assert options.embedder.n_filters == 2048 and options.embedder.max_characters == 50


@pytest.mark.parametrize("config_path", [None, "", 7, ["a"]])
def test_an_unusable_config_path_is_refused(tmp_path: Path, config_path: object) -> None:
    with pytest.raises(OptionsError, match="config_path is"):
        read_options(folder_with(tmp_path, config_path))


@pytest.mark.parametrize("config_path", ["gone.json", "/", "..", "config.json/x"])
def test_a_path_without_a_file_is_refused_by_name(tmp_path: Path, config_path: str) -> None:
    with pytest.raises(OptionsError, match="config_path is"):
        read_options(folder_with(tmp_path, config_path))


@pytest.mark.parametrize("content", ["{", "[]", "\xff", '"x"', "[" * 100_000])
def test_files_that_are_no_json_object_are_named(tmp_path: Path, content: str) -> None:
    shutil.copytree(MANYLANGS / "char_word_elmo", tmp_path / "model")
    (tmp_path / "model" / "cnn_tiny.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(OptionsError, match=r"cnn_tiny\.json"):
        read_options(tmp_path / "model")


def test_unusable_options_name_the_file(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "net.json")
    (folder / "net.json").write_text(json.dumps(changed("encoder", dim=-3)))
    with pytest.raises(OptionsError, match=r"net\.json: encoder\.dim is -3"):
        read_options(folder)
