"""Ways to compute an LSTM layer over packed sentences, all equal to the definition in `plain`.

**Packed** means: only real tokens, ordered by position and within a position by sentence, longest sentence first, as in
torch's PackedSequence. `batch_sizes[t]` sentences have a token at position t, and rows `sum(batch_sizes[:t])` onwards
are theirs. So no product is spent on padding, and the sentences that go on are always the first rows.
"""
