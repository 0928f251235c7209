from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.kernels import plain
from elmo_model.lstm import LstmState, ProjectedLstm
from elmo_model.options import LstmOptions


def random_layer(**options: Any) -> ProjectedLstm:
    layer = ProjectedLstm(LstmOptions(**{"dim": 10, "projection_dim": 4, **options}))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0.0, 1.0, generator=generator)
    return layer.requires_grad_(False)


def test_without_clips_and_projection_the_layer_is_torchs_lstm() -> None:
    layer = random_layer(dim=4)
    stock = torch.nn.LSTM(4, 4)
    # torch orders the gates input, forget, candidate, output.
    input_gate, candidate, forget_gate, output_gate = layer.weight.chunk(4)
    reordered = torch.cat([input_gate, forget_gate, candidate, output_gate])
    bias = layer.bias.view(4, 4) + torch.tensor([0.0, 0.0, layer.forget_bias, 0.0])[:, None]
    stock.load_state_dict(
        {
            "weight_ih_l0": reordered[:, :4],
            "weight_hh_l0": reordered[:, 4:],
            "bias_ih_l0": bias[[0, 2, 1, 3]].flatten(),
            "bias_hh_l0": torch.zeros(16),
        }
    )
    sequences = [torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) for n in (5, 3, 3, 1)]
    packed = torch.nn.utils.rnn.pack_sequence(sequences)
    expected, (hidden, cell) = stock(packed)
    outputs, final = plain.run(layer, packed.data, packed.batch_sizes.tolist(), layer.zero_state(4))
    torch.testing.assert_close(outputs, expected.data)
    torch.testing.assert_close(final.hidden, hidden[0])
    torch.testing.assert_close(final.cell, cell[0])


def test_both_clips_bind_and_what_is_carried_is_clipped() -> None:
    inputs = 3 * torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    clipped = random_layer(cell_clip=0.5, proj_clip=0.8)
    outputs, final = plain.run(clipped, inputs, [1] * 6, clipped.zero_state(1))
    assert outputs.abs().max().item() == pytest.approx(0.8)
    assert final.cell.abs().max().item() == 0.5
    loose = random_layer(cell_clip=1000, proj_clip=1000)
    unclipped, _ = plain.run(loose, inputs, [1] * 6, loose.zero_state(1))
    assert (outputs - unclipped).abs().max() > 0.1


def test_the_state_after_a_part_continues_the_whole() -> None:
    layer = random_layer(cell_clip=3, proj_clip=3)
    inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))
    whole, end = plain.run(layer, inputs, [1] * 6, layer.zero_state(1))
    first, between = plain.run(layer, inputs[:2], [1] * 2, layer.zero_state(1))
    second, last = plain.run(layer, inputs[2:], [1] * 4, between)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(last, end)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_each_sentence_of_a_batch_is_computed_as_if_alone(lengths: list[int]) -> None:
    layer = random_layer(cell_clip=0.5, proj_clip=0.5)
    generator = torch.Generator().manual_seed(3)
    lengths = sorted(lengths, reverse=True)
    sequences = [torch.randn(length, 4, generator=generator) for length in lengths]
    states = LstmState(
        torch.randn(len(lengths), 10, generator=generator), torch.randn(len(lengths), 4, generator=generator)
    )
    packed = torch.nn.utils.rnn.pack_sequence(sequences)
    outputs, final = plain.run(layer, packed.data, packed.batch_sizes.tolist(), states)
    padded, _ = torch.nn.utils.rnn.pad_packed_sequence(
        torch.nn.utils.rnn.PackedSequence(outputs, packed.batch_sizes), batch_first=True
    )
    for k, sequence in enumerate(sequences):
        before = LstmState(states.cell[k : k + 1], states.hidden[k : k + 1])
        alone, after = plain.run(layer, sequence, [1] * len(sequence), before)
        torch.testing.assert_close(padded[k, : len(sequence)], alone)
        torch.testing.assert_close(final.hidden[k], after.hidden[0])
        torch.testing.assert_close(final.cell[k], after.cell[0])


def test_a_forget_bias_is_added_at_run_time() -> None:
    layer, other = random_layer(), random_layer()
    other.forget_bias = 0.0
    other.bias[20:30] += 1.0
    inputs = torch.randn(3, 4, generator=torch.Generator().manual_seed(4))
    torch.testing.assert_close(
        plain.run(layer, inputs, [1] * 3, layer.zero_state(1))[0],
        plain.run(other, inputs, [1] * 3, layer.zero_state(1))[0],
    )


def test_gradients_flow_through_every_parameter_and_the_clips_stop_them() -> None:
    layer = random_layer(cell_clip=5, proj_clip=5).double().requires_grad_(True)
    inputs = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).requires_grad_(True)

    def outputs(*_: torch.Tensor) -> torch.Tensor:
        return plain.run(layer, inputs, [2, 2, 1], layer.zero_state(2))[0]

    assert torch.autograd.gradcheck(outputs, (inputs, *layer.parameters()))


def test_directions_are_computed_apart() -> None:
    layers = [random_layer(), random_layer(cell_clip=0.1)]
    inputs = [torch.randn(3, 4, generator=torch.Generator().manual_seed(k)) for k in (6, 7)]
    states = [layer.zero_state(2) for layer in layers]
    outputs, final = plain.PlainLayer(layers)(inputs, [2, 1], states)
    for k, layer in enumerate(layers):
        alone, after = plain.run(layer, inputs[k], [2, 1], states[k])
        np.testing.assert_array_equal(outputs[k].numpy(), alone.numpy())
        np.testing.assert_array_equal(final[k].cell.numpy(), after.cell.numpy())
