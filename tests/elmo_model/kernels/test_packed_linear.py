import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.kernels import packed_linear as module
from elmo_model.kernels.packed_linear import packed_linear


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 70),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([None, 0.5]),
    st.booleans(),
    st.booleans(),
)
def test_the_product_is_torchs(
    rows: int, inner: int, outer: int, clip: float | None, bias: bool, private: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, offset = torch.randn(outer, inner, generator=generator), torch.randn(outer, generator=generator)
    given_rows = torch.randn(rows, inner, generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        if not private:
            patch.setattr(module, "missing_operators", lambda: "taken away")
        found = packed_linear(weight, offset if bias else None, clip=clip)(given_rows)
    expected = F.linear(given_rows, weight, offset if bias else None)
    expected = expected if clip is None else expected.clamp(-clip, clip)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.skipif(module.missing_operators() is not None, reason="this torch lacks the private operators")
def test_a_packed_weight_does_not_keep_the_given_one() -> None:
    weight = torch.randn(8, 8)
    linear = packed_linear(weight, None)
    before = linear(torch.eye(8))
    weight.zero_()
    assert torch.equal(linear(torch.eye(8)), before)
