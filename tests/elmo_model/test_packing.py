import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_model.packing import pack


@given(st.lists(st.integers(0, 9), max_size=12))
def test_packing_is_that_of_torch(lengths: list[int]) -> None:
    packing = pack(np.array(lengths, dtype=np.int64))
    ends = np.cumsum(lengths)
    tokens = [torch.arange(end - length, end) for end, length in zip(ends, lengths, strict=True) if length]
    ordered = sorted(tokens, key=len, reverse=True)
    if not ordered:
        assert packing.batch_sizes == []
        assert packing.n_sentences == 0
        return
    for direction, sequences in (("forward", ordered), ("backward", [sequence.flip(0) for sequence in ordered])):
        expected = torch.nn.utils.rnn.pack_sequence(sequences)
        assert packing.batch_sizes == expected.batch_sizes.tolist()
        np.testing.assert_array_equal(packing.rows[direction], expected.data.numpy())
    assert packing.n_sentences == len(ordered)
    assert [lengths[k] for k in packing.order[: len(ordered)]] == [len(sequence) for sequence in ordered]
