"""Transformers from a local folder: a tiny BERT with random weights, made here."""

import json
import pickle
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from jobs.encoders.transformer import TransformerEncoderFactory, is_transformer
from jobs.run_dump import run_dump
from pipeline.config import DumpConfig
from pipeline.encoding import Encoded
from pipeline.errors import ConfigError
from pipeline.reader import FeatureStore
from support.malicious import Malicious
from support.paths import GOLDEN

transformers = pytest.importorskip("transformers")

WIDTH, LAYERS, POSITIONS = 8, 2, 16
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "play", "##ing", "##s", "##able", "."]
SENTENCES = [["the", "playing", "cat"], ["cats"], [], ["plays", "xyz", "."]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path_factory.mktemp("models") / "bert"
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({piece: number for number, piece in enumerate(PIECES)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(PIECES),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=POSITIONS,
        hidden_dropout_prob=0.5,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(path)
    return path


def encode(folder: Path, sentences: list[list[str]], **options: Any) -> Encoded:
    factory = TransformerEncoderFactory(model=str(folder), **options)
    columns = [column.name for column in factory.describe().columns]
    return factory.load(columns=columns, device="cpu", precision="float32", carried_state=False).encode(sentences)


def hidden_states(folder: Path, pieces: list[str]) -> list[NDArray[np.float32]]:
    """The layers of one sentence of pieces, straight from the library, marks taken off."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    ids = torch.tensor([[2, *(PIECES.index(piece) for piece in pieces), 3]])
    with torch.no_grad():
        return [layer[0, 1:-1].numpy() for layer in model(ids, output_hidden_states=True).hidden_states]


def test_words_are_the_mean_of_their_pieces_in_every_layer(folder: Path) -> None:
    encoded = encode(folder, SENTENCES)
    first = hidden_states(folder, ["the", "play", "##ing", "cat"])
    last = hidden_states(folder, ["play", "##s", "[UNK]", "."])
    assert list(encoded.columns) == [f"layer_{layer}" for layer in range(LAYERS + 1)]
    for layer in range(LAYERS + 1):
        found = encoded.columns[f"layer_{layer}"]
        wanted = [first[layer][0], first[layer][1:3].mean(axis=0), first[layer][3]]
        np.testing.assert_allclose(found[:3], wanted, atol=1e-5)
        np.testing.assert_allclose(found[4:], [last[layer][:2].mean(axis=0), *last[layer][2:]], atol=1e-5)
    assert encoded.counts == {}


def test_words_can_be_their_first_piece(folder: Path) -> None:
    found = encode(folder, SENTENCES, pieces="first").columns["layer_2"]
    np.testing.assert_allclose(
        found[:3], hidden_states(folder, ["the", "play", "##ing", "cat"])[2][[0, 1, 3]], atol=1e-5
    )
    specs = [TransformerEncoderFactory(model=str(folder), pieces=how).describe() for how in ("first", "mean")]
    assert specs[0].numerics != specs[1].numerics


def test_neighbours_in_the_batch_do_not_matter(folder: Path) -> None:
    together = encode(folder, SENTENCES).columns["layer_2"]
    np.testing.assert_allclose(encode(folder, [SENTENCES[0]]).columns["layer_2"], together[:3], atol=1e-5)
    assert encode(folder, [[], []]).columns["layer_0"].shape == (0, WIDTH)


def test_a_sentence_longer_than_the_model_is_cut_between_words_and_counted(folder: Path) -> None:
    sentence = ["playing", "the"] * 10  # 30 pieces, 14 a window
    encoded = encode(folder, [["cat"], sentence])
    assert encoded.counts == {"windows_added": 2}
    window = hidden_states(folder, ["play", "##ing", "the"] * 4 + ["play", "##ing"])[2]
    np.testing.assert_allclose(encoded.columns["layer_2"][2], window[2], atol=1e-5)
    assert encoded.columns["layer_2"].shape == (21, WIDTH)


def test_odd_words_are_counted(folder: Path) -> None:
    encoded = encode(folder, [["cat", "", " ", "play" + "s" * 30]])
    assert encoded.counts == {"tokens_without_pieces": 2, "truncated_tokens": 1, "windows_added": 1}
    assert not encoded.columns["layer_1"][1:3].any() and encoded.columns["layer_1"][[0, 3]].any()


def test_a_dump_holds_all_layers(folder: Path, tmp_path: Path) -> None:
    lines = (json.dumps({"id": str(number), "tokens": tokens}) + "\n" for number, tokens in enumerate(SENTENCES))
    (tmp_path / "corpus.jsonl").write_text("".join(lines))
    factory = pickle.loads(pickle.dumps(TransformerEncoderFactory(model=str(folder))))
    run_dump([str(tmp_path / "corpus.jsonl")], str(tmp_path / "store"), encoder=factory, config=DumpConfig())
    layers = FeatureStore.open(tmp_path / "store")["3"].layers()
    assert layers.shape == (LAYERS + 1, 3, WIDTH)
    np.testing.assert_allclose(layers[2], encode(folder, SENTENCES).columns["layer_2"][4:], atol=1e-5)


def test_no_connection_is_ever_tried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refused)
    encode(folder, SENTENCES)


def copied(folder: Path, target: Path, *left_out: str) -> Path:
    target.mkdir()
    for path in folder.iterdir():
        if path.name not in left_out:
            (target / path.name).write_bytes(path.read_bytes())
    return target


def test_pickled_weights_are_refused_and_not_run(folder: Path, tmp_path: Path) -> None:
    model = copied(folder, tmp_path / "model", "model.safetensors")
    torch.save({"weight": Malicious(tmp_path / "victim")}, model / "pytorch_model.bin")
    factory = TransformerEncoderFactory(model=str(model))
    for call in (factory.describe, lambda: encode(model, SENTENCES)):
        with pytest.raises(ConfigError, match=r"safetensors files only.*pytorch_model\.bin"):
            call()
    assert not (tmp_path / "victim").exists()


def test_code_in_the_folder_is_not_run(folder: Path, tmp_path: Path) -> None:
    model = copied(folder, tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Own"}}
    (model / "config.json").write_text(json.dumps(config))
    (model / "own.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'victim')!r})\nclass Own: pass\n")
    with pytest.raises(ConfigError, match="AutoConfig cannot be made"):
        TransformerEncoderFactory(model=str(model)).describe()
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_files_are_refused_in_one_line(folder: Path, tmp_path: Path, name: str) -> None:
    model = copied(folder, tmp_path / "model")
    content = (model / name).read_bytes()
    (model / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ConfigError) as caught:
        encode(model, SENTENCES)
    assert str(model) in str(caught.value) and "\n" not in str(caught.value)


def test_every_file_that_matters_is_in_the_digest(folder: Path, tmp_path: Path) -> None:
    model = copied(folder, tmp_path / "model")
    before = TransformerEncoderFactory(model=str(model)).describe().model_digest
    assert before == TransformerEncoderFactory(model=str(folder)).describe().model_digest
    (model / "README.md").write_text("about")
    assert TransformerEncoderFactory(model=str(model)).describe().model_digest == before
    (model / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes() + b"\n")
    assert TransformerEncoderFactory(model=str(model)).describe().model_digest != before


def test_what_a_transformer_does_not_have_is_refused(folder: Path) -> None:
    factory = TransformerEncoderFactory(model=str(folder))
    with pytest.raises(ConfigError, match="float32 only"):
        factory.check(device="cpu", precision="bfloat16", carried_state=False)
    with pytest.raises(ConfigError, match="no state"):
        factory.check(device="cpu", precision="float32", carried_state=True)
    with pytest.raises(ConfigError, match="mean, first"):
        TransformerEncoderFactory(model=str(folder), pieces="last")  # type: ignore[arg-type]


def test_a_model_that_is_no_encoder_is_refused(folder: Path, tmp_path: Path) -> None:
    model = copied(folder, tmp_path / "model")
    (model / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(ConfigError, match="t5 is no encoder"):
        TransformerEncoderFactory(model=str(model)).describe()


def test_the_family_is_told_by_its_config(folder: Path) -> None:
    assert is_transformer(folder) and not is_transformer(GOLDEN / "manylangs" / "char_word_elmo")
    assert not is_transformer(GOLDEN / "seeded" / "base")
