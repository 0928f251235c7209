"""ELMo on the fly: the numbers of the originals and of the cached features, frozen or trained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_model.bilm import BiLm
from elmo_model.elmo import Elmo
from elmo_model.extractor import Extractor
from elmo_model.manylangs.model import ManyLangsModel
from elmo_model.token_table import read_token_table
from elmo_model.vocabulary import Vocabulary
from elmo_model.weights import read_bilm
from support.bilms import SEEDED, SENTENCES, TOLERANCE
from support.paths import GOLDEN

BATCH = [["The", "cat", "sat"], [], ["Hello"], ["\u6211", "the", "the", "dog", "."]]


def word_model() -> BiLm:
    bilm = read_bilm(SEEDED / "base")
    folder = SEEDED / "base" / "bilm_dumps"
    vocabulary = Vocabulary.read(folder / "vocab.txt")
    bilm.token_encoder = read_token_table(folder / "token_embeddings.hdf5", vocabulary, width=8)
    return bilm


MODELS: dict[str, Callable[[], BiLm]] = {
    "characters": lambda: read_bilm(SEEDED / "base"),
    "no skip connections": lambda: read_bilm(SEEDED / "noskip_l3_tanh"),
    "no projection": lambda: read_bilm(SEEDED / "dim_equal_projection"),
    "words": word_model,
    "ELMoForManyLangs": lambda: ManyLangsModel.open(GOLDEN / "manylangs" / "char_word_elmo").read_bilm(),
    "ELMoForManyLangs, words": lambda: ManyLangsModel.open(GOLDEN / "manylangs" / "word_only_elmo").read_bilm(),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_the_layers_are_those_of_the_cached_features(name: str) -> None:
    elmo = Elmo(MODELS[name]()).eval()
    layers, mask = elmo.layers(elmo.ids(BATCH))
    columns = Extractor(MODELS[name]()).encode(BATCH).columns
    halves = [("token", "token")] + [(f"forward_{k}", f"backward_{k}") for k in range(1, layers.shape[1])]
    wanted = np.stack([np.concatenate([columns[a], columns[b]], axis=1) for a, b in halves])
    inner = torch.zeros_like(mask)
    for row, sentence in enumerate(BATCH):
        inner[row, 1 : 1 + len(sentence)] = True
    np.testing.assert_allclose(layers.transpose(0, 1)[:, inner].detach().numpy(), wanted, atol=TOLERANCE)
    assert mask.sum(dim=1).tolist() == [len(sentence) + 2 for sentence in BATCH]
    assert not layers.transpose(1, 2)[~mask].any()


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("setting", ["uniform", "weighted", "one_layer"])
def test_the_mixes_are_those_of_allennlps_module(setting: str, layer_norm: bool) -> None:
    with h5py.File(SEEDED / "scalar_mix.hdf5") as file:
        settings: dict[str, Any] = json.loads(file.attrs["settings"])[setting]
        wanted = torch.from_numpy(file[f"mix/{setting}/layer_norm_{str(layer_norm).lower()}/elmo_module"][()])
        ids = torch.from_numpy(file["char_ids"][()])
        mask = torch.from_numpy(file["mask_without_boundaries"][()])
    elmo = Elmo(read_bilm(SEEDED / "base"), layer_norm="allennlp" if layer_norm else None).eval()
    elmo.load_state_dict(
        {
            "mixes.0.raw_weights": torch.tensor(settings["scalar_parameters"]),
            "mixes.0.gamma": torch.tensor(settings["gamma"]),
        },
        strict=False,
    )
    output = elmo(ids)
    assert torch.equal(output.mask, mask)
    torch.testing.assert_close(output.mixes[0], wanted, atol=TOLERANCE, rtol=0)
    assert torch.equal(elmo.ids([SENTENCES[k] for k in (2, 7, 0, 11)]), ids.long())


def test_as_many_mixes_as_asked_each_with_its_own_weights() -> None:
    elmo = Elmo(read_bilm(SEEDED / "base"), n_mixes=3, dropout=0.0)
    mixes, mask = elmo(elmo.ids(BATCH))
    assert len(mixes) == 3 and all(mix.shape == (4, 5, elmo.width) for mix in mixes)
    torch.autograd.backward(mixes[1].sum())
    trained_weights = [name for name, value in elmo.mixes.named_parameters() if value.grad is not None]
    assert trained_weights == ["1.gamma", "1.raw_weights"]
    assert mask.sum(dim=1).tolist() == [3, 0, 1, 5]


def test_dropout_acts_in_training_only() -> None:
    elmo = Elmo(read_bilm(SEEDED / "base"), dropout=0.9)
    ids = elmo.ids(BATCH)
    assert not torch.equal(elmo(ids).mixes[0], elmo(ids).mixes[0])
    elmo.eval()
    assert torch.equal(elmo(ids).mixes[0], elmo(ids).mixes[0])


def trained(elmo: Elmo) -> set[str]:
    """Names of the biLM's parameters that a step would change."""
    elmo.zero_grad()
    torch.autograd.backward(elmo(elmo.ids(BATCH)).mixes[0].square().sum())
    return {name for name, value in elmo.bilm.named_parameters() if value.grad is not None and value.grad.any()}


def test_the_bilm_is_frozen_unless_fine_tuning_is_switched_on() -> None:
    elmo = Elmo(read_bilm(SEEDED / "base"), dropout=0.0)
    assert trained(elmo) == set()
    elmo.set_fine_tune(True)
    assert trained(elmo) == {name for name, _ in elmo.bilm.named_parameters()}
    elmo.set_fine_tune(False)
    assert trained(elmo) == set()


def test_fine_tuning_gradients_are_those_of_finite_differences() -> None:
    elmo = Elmo(read_bilm(SEEDED / "tanh_l2_highway0"), fine_tune=True).double()
    ids = elmo.ids(BATCH)
    weight = dict(elmo.bilm.named_parameters())["backward_layers.0.weight"]
    probe = torch.randn(elmo.layers(ids)[0].shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def loss() -> Tensor:
        return torch.sum(elmo.layers(ids)[0] * probe)

    torch.autograd.backward(loss())
    assert weight.grad is not None
    place = np.unravel_index(int(weight.grad.abs().argmax()), weight.shape)
    with torch.no_grad():
        weight[place] += 1e-4
        above = loss()
        weight[place] -= 2e-4
        difference = (above - loss()) / 2e-4
    assert float(difference) == pytest.approx(float(weight.grad[place]), rel=1e-5)


def test_the_batch_does_not_matter() -> None:
    elmo = Elmo(read_bilm(SEEDED / "base")).eval()
    together = elmo(elmo.ids(SENTENCES)).mixes[0]
    for row in (0, 5, 11):
        alone = elmo(elmo.ids([SENTENCES[row]])).mixes[0][0]
        torch.testing.assert_close(together[row, : len(alone)], alone, atol=TOLERANCE, rtol=0)


def test_a_state_dict_brings_everything_back(tmp_path: Path) -> None:
    elmo = Elmo(read_bilm(SEEDED / "base"), n_mixes=2).eval()
    torch.nn.init.normal_(dict(elmo.mixes.named_parameters())["1.raw_weights"])
    torch.save(elmo.state_dict(), tmp_path / "elmo.pt")
    again = Elmo(read_bilm(SEEDED / "base"), n_mixes=2).eval()
    again.load_state_dict(torch.load(tmp_path / "elmo.pt", weights_only=True))
    assert torch.equal(again(elmo.ids(BATCH)).mixes[1], elmo(elmo.ids(BATCH)).mixes[1])


def test_sentences_without_tokens_are_fine_and_no_sentences_are_not() -> None:
    elmo = Elmo(read_bilm(SEEDED / "base")).eval()
    assert elmo(elmo.ids([[], []])).mixes[0].shape == (2, 0, elmo.width)
    with pytest.raises(ValueError, match="no sentences"):
        elmo(elmo.ids([]))


def test_padding_before_a_token_is_refused() -> None:
    elmo = Elmo(read_bilm(SEEDED / "base"))
    with pytest.raises(ValueError, match="pad at the end"):
        elmo(elmo.ids(BATCH).flip(1))


def test_strings_in_place_of_token_lists_are_refused() -> None:
    elmo = Elmo(read_bilm(SEEDED / "base"))
    with pytest.raises(TypeError, match="lists of tokens"):
        elmo.ids(["The cat"])
