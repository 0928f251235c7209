import json
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmo_model.scalar_mix import ScalarMix, without_boundaries
from support.bilms import SEEDED, TOLERANCE

GOLDEN_MIX = SEEDED / "scalar_mix.hdf5"
GOLDEN_TF = SEEDED / "weight_layers_bilm_tf.hdf5"


def golden_layers() -> tuple[Tensor, Tensor]:
    """Layers (batch, layers, tokens, width) and mask of the stored batch, with boundaries."""
    with h5py.File(GOLDEN_MIX) as file:
        layers = np.stack([file[f"activations_with_boundaries/{k}"][()] for k in range(3)], axis=1)
        return torch.from_numpy(layers), torch.from_numpy(file["mask_with_boundaries"][()])


def without_boundary_rows(layers: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    rows = [without_boundaries(layers[:, k], mask) for k in range(layers.shape[1])]
    return torch.stack([vectors for vectors, _ in rows], dim=1), rows[0][1]


@pytest.mark.parametrize("setting", ["uniform", "weighted", "one_layer"])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_mix_equals_allennlps_with_and_without_boundaries(setting: str, layer_norm: bool) -> None:
    layers, mask = golden_layers()
    with h5py.File(GOLDEN_MIX) as file:
        settings: dict[str, Any] = json.loads(file.attrs["settings"])[setting]
        group = file[f"mix/{setting}/layer_norm_{str(layer_norm).lower()}"]
        with_boundaries = torch.from_numpy(group["with_boundaries"][()])
        inner_expected = torch.from_numpy(group["elmo_module"][()])
        inner_mask = torch.from_numpy(file["mask_without_boundaries"][()])
    mix = ScalarMix(
        3,
        raw_weights=settings["scalar_parameters"],
        gamma=settings["gamma"],
        layer_norm="allennlp" if layer_norm else None,
    )
    mixed = mix(layers, mask)
    torch.testing.assert_close(mixed[mask], with_boundaries[mask], atol=TOLERANCE, rtol=0)
    assert not mixed[~mask].any()
    inner, found_mask = without_boundaries(mixed, mask)
    assert torch.equal(found_mask, inner_mask)
    torch.testing.assert_close(inner, inner_expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_mix_of_cached_features_equals_bilm_tfs(layer_norm: bool) -> None:
    layers, mask = without_boundary_rows(*golden_layers())
    with h5py.File(GOLDEN_TF) as file:
        weights, gamma = json.loads(file.attrs["W"]), float(file.attrs["gamma"])
        name = f"layer_norm_{str(layer_norm).lower()}"
        expected = torch.from_numpy(file[f"{name}_top_only_false"][()])
        top = torch.from_numpy(file[f"{name}_top_only_true"][()])
        regularisation = float(file[f"{name}_top_only_false_l2"][()]) / float(file.attrs["l2_coef"])
        assert torch.equal(mask, torch.from_numpy(file["mask"][()]))
    mix = ScalarMix(3, raw_weights=weights, gamma=gamma, layer_norm="bilm-tf" if layer_norm else None)
    torch.testing.assert_close(mix(layers, mask)[mask], expected[mask], atol=TOLERANCE, rtol=0)
    assert mix.penalty().item() == pytest.approx(regularisation, rel=1e-6)
    top_only = ScalarMix(3, weights=[0.0, 0.0, 1.0], gamma=gamma)
    torch.testing.assert_close(top_only(layers, mask)[mask], top[mask], atol=TOLERANCE, rtol=0)


def test_the_two_layer_norms_differ_by_what_they_count() -> None:
    layers, mask = golden_layers()
    counted = without_boundaries(ScalarMix(3, layer_norm="allennlp")(layers, mask), mask)[0]
    inner, inner_mask = without_boundary_rows(layers, mask)
    assert (counted - ScalarMix(3, layer_norm="bilm-tf")(inner, inner_mask)).abs().max() > 0.1


def test_raw_weights_are_values_before_the_softmax() -> None:
    torch.testing.assert_close(
        ScalarMix(3, raw_weights=[1, 0, 0]).layer_weights(),
        torch.tensor([0.5761, 0.2119, 0.2119]),
        atol=1e-4,
        rtol=0,
    )
    layers, mask = golden_layers()
    mean = ScalarMix(3, raw_weights=[0, 0, 0])(layers, mask)
    torch.testing.assert_close(mean[mask], layers.mean(dim=1)[mask])


def test_final_weights_are_taken_exactly_and_must_sum_to_one() -> None:
    layers, mask = golden_layers()
    mix = ScalarMix(3, weights=[1, 0, 0])
    assert torch.equal(mix(layers, mask)[mask], layers[:, 0][mask])
    assert mix.penalty().item() == 0
    with pytest.raises(ValueError, match="must sum to 1"):
        ScalarMix(3, weights=[1, 1, 0])


def test_reported_weights_are_those_of_a_loaded_state() -> None:
    fresh = ScalarMix(3)
    assert fresh.layer_weights().tolist() == pytest.approx([1 / 3] * 3)
    assert fresh.gamma.item() == 1
    fresh.load_state_dict(ScalarMix(3, raw_weights=[0.3, -1.2, 0.7], gamma=1.7).state_dict())
    by_hand = np.exp([0.3, -1.2, 0.7])
    assert fresh.layer_weights().tolist() == pytest.approx((by_hand / by_hand.sum()).tolist())
    assert fresh.gamma.item() == pytest.approx(1.7)


def test_training_moves_weights_and_gamma_unless_they_are_fixed() -> None:
    layers, mask = golden_layers()
    mix = ScalarMix(3)
    mix(layers, mask).square().sum().backward()
    assert mix.raw_weights is not None
    assert mix.raw_weights.grad is not None
    assert mix.raw_weights.grad.abs().min() > 0
    assert mix.gamma.grad is not None
    fixed = ScalarMix(3, trainable=False)
    assert not fixed(layers, mask).requires_grad


def test_dropout_acts_in_training_mode_only() -> None:
    layers, mask = golden_layers()
    mix = ScalarMix(3, dropout=0.5)
    plain = ScalarMix(3)(layers, mask)
    dropped = mix(layers, mask)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])
    assert 0.3 < kept[mask].float().mean() < 0.7
    assert torch.equal(mix.eval()(layers, mask), plain)


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.sampled_from([None, "bilm-tf", "allennlp"]))
def test_masked_positions_never_matter_and_come_out_zero(lengths: list[int], layer_norm: Any) -> None:
    longest = max(lengths)
    mask = torch.arange(longest)[None] < torch.tensor(lengths)[:, None]
    layers = torch.randn(len(lengths), 3, longest, 4, generator=torch.Generator().manual_seed(1))
    mix = ScalarMix(3, layer_norm=layer_norm)
    clean = mix(layers, mask)
    dirty = mix(layers.masked_fill(~mask[:, None, :, None], float("nan")), mask)
    assert torch.equal(clean, dirty)
    assert clean.isfinite().all()
    assert not clean[~mask].any()


def test_half_precision_features_are_mixed_in_float32() -> None:
    layers, mask = golden_layers()
    mixed = ScalarMix(3)(layers.half(), mask)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, ScalarMix(3)(layers.half().float(), mask), atol=0, rtol=0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"raw_weights": [0, 0]}, "raw_weights has 2 values for 3 layers"),
        ({"raw_weights": [0, 0, 0], "weights": [1, 0, 0]}, "not both"),
        ({"layer_norm": "torch"}, "layer_norm is 'torch'; it must be one of bilm-tf, allennlp"),
    ],
)
def test_contradictory_settings_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ScalarMix(3, **arguments)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"this mix wants \(batch, 3 layers"):
        ScalarMix(3)(torch.zeros(1, 2, 4, 5), torch.ones(1, 4))
    with pytest.raises(ValueError, match="mask has shape"):
        ScalarMix(3)(torch.zeros(1, 3, 4, 5), torch.ones(1, 3))
