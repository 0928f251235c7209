from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.kernels import batched
from elmo_model.kernels.batched import BatchedLayer
from elmo_model.kernels.plain import PlainLayer
from elmo_model.lstm import LstmState, ProjectedLstm
from elmo_model.options import LstmOptions
from elmo_model.packing import pack
from support.bilms import TOLERANCE

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]


def random_layers(count: int, **options: Any) -> list[ProjectedLstm]:
    generator = torch.Generator().manual_seed(0)
    layers = [ProjectedLstm(LstmOptions(**options), forget_bias=0.5 + k) for k in range(count)]
    for layer in layers:
        layer.requires_grad_(False)
        for parameter in layer.parameters():
            parameter.normal_(0.0, 0.7, generator=generator)
    return layers


def random_batch(lengths: list[int], layers: list[ProjectedLstm], seed: int = 1) -> Any:
    generator = torch.Generator().manual_seed(seed)
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


def on(device: str, batch: Any) -> Any:
    inputs, batch_sizes, states = batch
    return (
        [rows.to(device) for rows in inputs],
        batch_sizes,
        [LstmState(state.cell.to(device), state.hidden.to(device)) for state in states],
    )


def check(found: Any, expected: Any, tolerance: float) -> None:
    for k, outputs in enumerate(expected[0]):
        torch.testing.assert_close(found[0][k].cpu(), outputs, atol=tolerance, rtol=0)
        torch.testing.assert_close(found[1][k].cell.cpu(), expected[1][k].cell, atol=tolerance, rtol=0)
        torch.testing.assert_close(found[1][k].hidden.cpu(), expected[1][k].hidden, atol=tolerance, rtol=0)


@pytest.mark.parametrize("device", DEVICES)
@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=9).filter(any), min_size=1, max_size=3),
    st.sampled_from([(12, 6), (16, 16), (5, 7)]),
    st.sampled_from([None, 0.3]),
    st.sampled_from([None, 0.3]),
    st.integers(1, 2),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_batched_equals_plain_batch_after_batch(
    device: str,
    batches: list[list[int]],
    sizes: tuple[int, int],
    cell_clip: float | None,
    proj_clip: float | None,
    n_directions: int,
    block: int,
    bucket: int,
) -> None:
    layers = random_layers(
        n_directions, dim=sizes[0], projection_dim=sizes[1], cell_clip=cell_clip, proj_clip=proj_clip
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched, "BLOCK_SENTENCES", block)
        patch.setattr(batched, "ROW_BUCKET", bucket)
        ready = BatchedLayer(layers, dtype=torch.float32, device=torch.device(device))
        for seed, lengths in enumerate(batches):
            batch = random_batch(lengths, layers, seed)
            check(ready(*on(device, batch)), PlainLayer(layers)(*batch), TOLERANCE)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precisions_are_near(device: str, dtype: torch.dtype) -> None:
    layers = random_layers(2, dim=32, projection_dim=16, cell_clip=3, proj_clip=3)
    for layer in layers:
        layer.weight.mul_(0.2)
    batch = random_batch([5, 4, 4, 1], layers)
    expected = PlainLayer(layers)(*batch)
    found = BatchedLayer(layers, dtype=dtype, device=torch.device(device))(*on(device, batch))
    check(found, expected, 0.1)
    assert (found[0][0].cpu() - expected[0][0]).abs().max() > 1e-5


def test_the_tf32_setting_is_put_back() -> None:
    layers = random_layers(1, dim=4, projection_dim=4)
    before = torch.backends.cuda.matmul.allow_tf32
    BatchedLayer(layers, dtype=torch.float32, device=torch.device("cpu"), tf32=True)(*random_batch([1], layers))
    assert torch.backends.cuda.matmul.allow_tf32 == before
