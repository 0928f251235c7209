"""Sentences to batches: which sentences of a shard are computed together."""

from collections.abc import Sequence


def batches_by_length(lengths: Sequence[int], *, batch_tokens: int) -> list[list[int]]:
    """The positions of all sentences with tokens, longest first, in batches of at most `batch_tokens` padded tokens.

    A batch costs sentences x longest; a sentence longer than the budget goes alone. Sentences of no tokens need no
    computation and are in no batch. The result depends on the lengths alone, so a shard is always cut the same way.

    Args:
        lengths: Tokens of each sentence.
        batch_tokens: The budget, at least 1.

    Returns:
        For each batch the positions in `lengths`, in order of falling length, then of position. The longest come
        first, so that what does not fit is found at the start of a job.
    """
    order = sorted((position for position, length in enumerate(lengths) if length), key=lambda p: (-lengths[p], p))
    batches: list[list[int]] = []
    for position in order:
        # The first of a batch is its longest, and so says what one more sentence costs.
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches


def batches_in_order(sentences: int, *, batch_sentences: int) -> list[list[int]]:
    """The positions 0 up to `sentences` in consecutive batches, as carried state needs them."""
    return [
        list(range(start, min(start + batch_sentences, sentences))) for start in range(0, sentences, batch_sentences)
    ]
