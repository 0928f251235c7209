import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.kernels import fused
from elmo_model.kernels.fused import FusedLayer
from elmo_model.kernels.plain import PlainLayer
from elmo_model.kernels.workers import Workers
from elmo_model.lstm import LstmState, ProjectedLstm
from elmo_model.options import LstmOptions
from elmo_model.packing import pack
from support.bilms import TOLERANCE

WORKERS = Workers(2)


def random_layers(count: int, **options: Any) -> list[ProjectedLstm]:
    generator = torch.Generator().manual_seed(0)
    layers = [ProjectedLstm(LstmOptions(**options), forget_bias=0.5 + k) for k in range(count)]
    for layer in layers:
        layer.requires_grad_(False)
        for parameter in layer.parameters():
            parameter.normal_(0.0, 0.7, generator=generator)
    return layers


def random_batch(lengths: list[int], layers: list[ProjectedLstm]) -> Any:
    generator = torch.Generator().manual_seed(1)
    packing = pack(torch.tensor(lengths).numpy())
    inputs = [torch.randn(sum(lengths), layer.width, generator=generator) for layer in layers]
    states = [
        LstmState(
            torch.randn(packing.n_sentences, layer.n_cells, generator=generator),
            torch.randn(packing.n_sentences, layer.width, generator=generator),
        )
        for layer in layers
    ]
    return inputs, packing.batch_sizes, states


def in_float64(batch: Any) -> Any:
    inputs, batch_sizes, states = batch
    return (
        [rows.double() for rows in inputs],
        batch_sizes,
        [LstmState(state.cell.double(), state.hidden.double()) for state in states],
    )


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=9).filter(any),
    st.sampled_from([(12, 6), (16, 16), (5, 7), (33, 8)]),
    st.sampled_from([None, 0.3]),
    st.sampled_from([None, 0.3]),
    st.integers(1, 2),
    st.integers(1, 4),
    st.integers(1, 100),
)
def test_fused_equals_plain(
    lengths: list[int],
    sizes: tuple[int, int],
    cell_clip: float | None,
    proj_clip: float | None,
    n_directions: int,
    block: int,
    cell_values: int,
) -> None:
    layers = random_layers(
        n_directions, dim=sizes[0], projection_dim=sizes[1], cell_clip=cell_clip, proj_clip=proj_clip
    )
    batch = random_batch(lengths, layers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "BLOCK_SENTENCES", block)
        patch.setattr(fused, "_CELL_VALUES", cell_values)
        outputs, final = FusedLayer(layers, dtype=torch.float32, workers=WORKERS)(*batch)
    expected, after = PlainLayer(layers)(*batch)
    exact, exact_after = PlainLayer([copy.deepcopy(layer).double() for layer in layers])(*in_float64(batch))
    for k in range(n_directions):
        for found, plain, true in (
            (outputs[k], expected[k], exact[k]),
            (final[k].cell, after[k].cell, exact_after[k].cell),
            (final[k].hidden, after[k].hidden, exact_after[k].hidden),
        ):
            # Without clips errors can grow from step to step; then the plain definition in float32 is as far away.
            error = max(TOLERANCE, 2 * float((plain - true).abs().max()))
            torch.testing.assert_close(found.double(), true, atol=error, rtol=0)


def test_inputs_and_states_are_left_as_they_were() -> None:
    layers = random_layers(2, dim=8, projection_dim=4, cell_clip=3, proj_clip=3)
    inputs, batch_sizes, states = random_batch([3, 1], layers)
    copies = [rows.clone() for rows in inputs], [state.cell.clone() for state in states]
    FusedLayer(layers, dtype=torch.float32, workers=WORKERS)(inputs, batch_sizes, states)
    assert all(map(torch.equal, copies[0], inputs))
    assert all(torch.equal(copy, state.cell) for copy, state in zip(copies[1], states, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_number_of_threads_changes_no_bit(dtype: torch.dtype) -> None:
    layers = random_layers(2, dim=70, projection_dim=33, cell_clip=3, proj_clip=3)
    batch = random_batch([4] * 150 + [3] * 150 + [1] * 7, layers)
    one, two, three = (FusedLayer(layers, dtype=dtype, workers=Workers(threads))(*batch) for threads in (1, 2, 3))
    for outputs, final in (two, three):
        assert all(map(torch.equal, outputs, one[0]))
        assert all(torch.equal(state.cell, expected.cell) for state, expected in zip(final, one[1], strict=True))
