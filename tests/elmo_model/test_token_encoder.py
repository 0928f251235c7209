import numpy as np
import pytest
import torch

from elmo_model.bilm import build_bilm
from elmo_model.options import ElmoOptions
from elmo_model.token_encoder import CharacterTokenEncoder, WordTokenEncoder
from elmo_model.vocabulary import Vocabulary
from elmo_model.weights import read_bilm
from support.bilms import SEEDED, SEEDED_MODELS, TOLERANCE, random_bilm, tiny_options
from support.oracle import Oracle

TOKENS = ["", "a", "cat", "語語語", "x" * 80, "<S>", "</S>", "a\ud800b", "tab\tand\nline", "\x00"]


@pytest.mark.parametrize("name", SEEDED_MODELS)
def test_token_vectors_equal_the_oracles(name: str) -> None:
    encoder = read_bilm(SEEDED / name).token_encoder
    oracle = Oracle(SEEDED / name)
    found = encoder(torch.from_numpy(encoder.token_ids(TOKENS)))
    expected = np.array([oracle.token_vector(token) for token in TOKENS])
    np.testing.assert_allclose(found.numpy(), expected, atol=TOLERANCE)


def test_absent_tokens_have_zero_characters() -> None:
    encoder = read_bilm(SEEDED / "base").token_encoder
    zeros = encoder(torch.zeros(1, 50, dtype=torch.int64))
    assert isinstance(encoder, CharacterTokenEncoder)
    encoder.char_embed.add_(1.0)
    assert torch.equal(encoder(torch.zeros(1, 50, dtype=torch.int64)), zeros)


def test_remarks_count_what_is_lost_or_taken_otherwise() -> None:
    encoder = random_bilm().token_encoder
    assert encoder.remarks("plain") == {}
    assert encoder.remarks("語" * 17) == {"truncated_tokens": 1}
    assert encoder.remarks("</S>") == {"boundary_like_tokens": 1}
    assert encoder.remarks("a\ud800\ud800" + "b" * 30) == {"truncated_tokens": 1, "dropped_surrogates": 2}


def test_unknown_words_share_the_row_of_unk() -> None:
    encoder = WordTokenEncoder(Vocabulary(["<UNK>", "<S>", "the", "</S>"]), width=3)
    encoder.embedding.data.copy_(torch.arange(12).view(4, 3))
    found = encoder(torch.from_numpy(encoder.token_ids(["the", "unseen", "</S>"])))
    assert found.tolist() == [[6, 7, 8], [0, 1, 2], [9, 10, 11]]
    assert encoder.remarks("unseen") == {"unknown_words": 1}
    assert encoder.remarks("<S>") == {"boundary_like_tokens": 1}
    assert encoder.remarks("the") == {}


def test_all_parameters_of_the_encoder_are_trained() -> None:
    bilm = random_bilm().requires_grad_(True)
    encoder = bilm.token_encoder
    encoder(torch.from_numpy(encoder.token_ids(TOKENS))).square().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_initial_values_are_those_of_the_original_training(activation: str) -> None:
    options = tiny_options(dim=128, projection_dim=64)
    options["char_cnn"].update(activation=activation, filters=[[2, 300], [5, 300]], embedding={"dim": 16})
    bilm = build_bilm(ElmoOptions.from_mapping(options))
    bilm.reset_parameters(torch.Generator().manual_seed(3))
    again = build_bilm(ElmoOptions.from_mapping(options))
    again.reset_parameters(torch.Generator().manual_seed(3))
    found = dict(bilm.named_parameters())
    assert all(torch.equal(values, found[name]) for name, values in again.named_parameters())
    assert found["token_encoder.char_embed"].abs().max() <= 1
    assert found["token_encoder.char_embed"].std().item() == pytest.approx(1 / 3**0.5, rel=0.05)
    convolution = 0.1 / 12**0.5 if activation == "relu" else (1 / (5 * 16)) ** 0.5
    assert found["token_encoder.convolutions.1.weight"].std().item() == pytest.approx(convolution, rel=0.05)
    assert set(found["token_encoder.highways.0.gate.bias"].tolist()) == {-2.0}
    for name in ("highways.0.gate", "highways.0.transform", "projection"):
        weight = found[f"token_encoder.{name}.weight"]
        assert weight.std().item() == pytest.approx((1 / 600) ** 0.5, rel=0.05)
    glorot = found["backward_layers.1.weight"]
    assert glorot.abs().max().item() == pytest.approx((6 / (128 + 512)) ** 0.5, rel=0.01)
    assert not found["backward_layers.1.bias"].any()
