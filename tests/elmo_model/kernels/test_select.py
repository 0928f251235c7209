import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from elmo_model import extractor as extractor_module
from elmo_model.errors import DeviceError
from elmo_model.extractor import Extractor
from elmo_model.kernels import int8_linear, packed_linear, select
from elmo_model.packing import Packing, pack
from elmo_model.weights import read_bilm
from support.bilms import SEEDED, SENTENCES, TOLERANCE, random_bilm, stacked, tiny_options

MODELS = ["base", "clip_tight", "relu_l3_highway0", "dim_equal_projection", "filters_equal_projection", "wide_filters"]


def without_private_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "missing_operators", lambda: "they were taken away")
    monkeypatch.setattr(select, "missing_operators", lambda: "they were taken away")


def test_the_plain_kernel_is_taken_when_asked_for() -> None:
    assert Extractor(random_bilm(), kernel="plain").kernel == "plain: asked for"


def test_the_fast_kernel_is_taken_by_itself_and_says_what_it_found() -> None:
    missing = packed_linear.missing_operators()
    how = "oneDNN packed products" if missing is None else f"torch's own products, since {missing}"
    assert Extractor(random_bilm()).kernel == f"fused, float32, {how}"


@pytest.mark.parametrize("name", MODELS)
def test_without_the_private_operators_the_values_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = stacked(Extractor(read_bilm(SEEDED / name), kernel="plain").encode(SENTENCES))
    without_private_operators(monkeypatch)
    extractor = Extractor(read_bilm(SEEDED / name))
    assert extractor.kernel == "fused, float32, torch's own products, since they were taken away"
    np.testing.assert_allclose(stacked(extractor.encode(SENTENCES)), expected, atol=TOLERANCE)


def test_operators_that_a_torch_lacks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        pass

    monkeypatch.setattr(torch.ops, "mkldnn", Nothing(), raising=False)
    missing = packed_linear.missing_operators()
    assert missing is not None
    assert "no operator mkldnn._reorder_linear_weight" in missing


@pytest.mark.parametrize("private", [True, False])
def test_bfloat16_is_near_float32_and_float32_inside_the_cell(private: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not private:
        without_private_operators(monkeypatch)
    options = tiny_options(dim=64, projection_dim=32)
    exact = stacked(Extractor(random_bilm(options, scale=0.2)).encode(SENTENCES))
    extractor = Extractor(random_bilm(options, scale=0.2), precision="bfloat16")
    assert extractor.kernel.startswith("fused, bfloat16")
    found = stacked(extractor.encode(SENTENCES))
    np.testing.assert_array_equal(found[0], exact[0])
    assert 1e-5 < abs(found - exact).max() < 0.2
    for layer in (1, 2):
        cosine = (found[layer] * exact[layer]).sum() / np.sqrt((found[layer] ** 2).sum() * (exact[layer] ** 2).sum())
        assert cosine > 0.999


def test_precisions_that_are_not_there_are_refused() -> None:
    with pytest.raises(DeviceError, match="'float8' isn't available on cpu; use one of float32, bfloat16, int8"):
        Extractor(random_bilm(), precision="float8")  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="the plain kernel computes in float32 only, not in bfloat16"):
        Extractor(random_bilm(), precision="bfloat16", kernel="plain")


@pytest.mark.skipif(int8_linear.missing_int8_operators() is not None, reason="no 8-bit products here")
def test_int8_is_near_float32_and_independent_of_the_batch() -> None:
    options = tiny_options(dim=64, projection_dim=32)
    bilm = random_bilm(options, scale=0.2)
    exact = stacked(Extractor(bilm).encode(SENTENCES))
    extractor = Extractor(bilm, precision="int8")
    assert extractor.kernel == "fused, int8, oneDNN 8-bit products"
    found = stacked(extractor.encode(SENTENCES))
    np.testing.assert_array_equal(found[0], exact[0])
    assert abs(found - exact).max() > 1e-4
    for layer in (1, 2):
        cosine = (found[layer] * exact[layer]).sum() / np.sqrt((found[layer] ** 2).sum() * (exact[layer] ** 2).sum())
        assert cosine > 0.999
    alone = stacked(extractor.encode(SENTENCES[:1]))
    np.testing.assert_allclose(alone, found[:, : len(SENTENCES[0])], atol=TOLERANCE)


def test_int8_without_its_operators_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "missing_int8_operators", lambda: "they were taken away")
    with pytest.raises(DeviceError, match="precision 'int8' isn't available: they were taken away"):
        Extractor(random_bilm(), precision="int8")


def test_a_consumed_model_keeps_no_second_copy_of_its_weights() -> None:
    bilm = random_bilm()
    expected = Extractor(bilm).encode(SENTENCES[:4]).columns
    extractor = Extractor(bilm, consume=True)
    packed = [*bilm.forward_layers, *bilm.backward_layers]
    if packed_linear.missing_operators() is None:
        packed.append(bilm.token_encoder)
    assert sum(parameter.numel() for part in packed for parameter in part.parameters()) == 0
    for name, values in extractor.encode(SENTENCES[:4]).columns.items():
        np.testing.assert_array_equal(values, expected[name])


def test_between_fast_kernels_torch_starts_no_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def noting_threads(lengths: NDArray[np.int64]) -> Packing:
        seen.append(torch.get_num_threads())
        return pack(lengths)

    monkeypatch.setattr(extractor_module, "pack", noting_threads)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        Extractor(random_bilm(), threads=2).encode(SENTENCES[:2])
        Extractor(random_bilm(), kernel="plain").encode(SENTENCES[:2])
        assert seen == [1, 2]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
