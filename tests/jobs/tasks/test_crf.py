"""The sums and the search of the CRF, against enumeration of all tag sequences."""

import itertools

import pytest
import torch
from torch import Tensor

from jobs.tasks.crf import LinearChainCrf
from jobs.tasks.schemes import may_follow

TAGS = ["B-A", "I-A", "L-A", "O", "U-A"]
LENGTHS = [4, 1, 3]


def random_crf(*, bioul: bool) -> LinearChainCrf:
    torch.manual_seed(1)
    crf = LinearChainCrf(TAGS, may_follow=may_follow if bioul else None)
    torch.nn.init.normal_(crf.transitions)
    return crf


def batch() -> tuple[Tensor, Tensor]:
    torch.manual_seed(2)
    emissions = 2 * torch.randn(len(LENGTHS), max(LENGTHS), len(TAGS))
    mask = torch.arange(max(LENGTHS))[None, :] < torch.tensor(LENGTHS)[:, None]
    return emissions, mask


def score(crf: LinearChainCrf, emissions: Tensor, sequence: tuple[int, ...], *, bioul: bool) -> float:
    """The definition: emissions plus transitions, with those from the start and to the end."""
    path = [len(TAGS), *sequence, len(TAGS)]
    names = [None, *(TAGS[number] for number in sequence), None]
    if bioul and not all(may_follow(left, right) for left, right in itertools.pairwise(names)):
        return float("-inf")
    moved = sum(float(crf.transitions.detach()[left, right]) for left, right in itertools.pairwise(path))
    return moved + sum(float(emissions[step, tag]) for step, tag in enumerate(sequence))


@pytest.mark.parametrize("bioul", [False, True])
def test_likelihood_and_best_sequence_equal_those_of_enumeration(bioul: bool) -> None:
    crf = random_crf(bioul=bioul)
    emissions, mask = batch()
    decoded = crf.decode(emissions, mask)
    for row, length in enumerate(LENGTHS):
        sequences = list(itertools.product(range(len(TAGS)), repeat=length))
        scores = torch.tensor([score(crf, emissions[row], sequence, bioul=bioul) for sequence in sequences])
        best = int(scores.argmax())
        assert tuple(decoded[row]) == sequences[best]
        tags = torch.zeros(len(LENGTHS), max(LENGTHS), dtype=torch.int64)
        tags[row, :length] = torch.tensor(sequences[best])
        likelihood = crf.log_likelihood(emissions, tags, mask)[row]
        torch.testing.assert_close(likelihood, scores.log_softmax(0)[best], atol=1e-4, rtol=0)


def test_what_is_behind_the_end_of_a_sentence_changes_nothing() -> None:
    crf = random_crf(bioul=False)
    emissions, mask = batch()
    tags = torch.ones(mask.shape, dtype=torch.int64)
    changed = emissions.masked_fill(~mask[:, :, None], 50.0)
    torch.testing.assert_close(
        crf.log_likelihood(changed, tags.masked_fill(~mask, 3), mask), crf.log_likelihood(emissions, tags, mask)
    )
    assert crf.decode(changed, mask) == crf.decode(emissions, mask)


def test_only_sequences_that_bioul_allows_are_decoded_and_training_stays_finite() -> None:
    crf = random_crf(bioul=True)
    emissions = torch.zeros(1, 3, len(TAGS))
    emissions[0, :, TAGS.index("I-A")] = 100.0
    mask = torch.ones(1, 3, dtype=torch.bool)
    names = [TAGS[number] for number in crf.decode(emissions, mask)[0]]
    assert names == ["B-A", "I-A", "L-A"]
    gold = torch.tensor([[TAGS.index("B-A"), TAGS.index("L-A"), TAGS.index("O")]])
    (-crf.log_likelihood(emissions, gold, mask).sum()).backward()  # type: ignore[no-untyped-call]
    assert crf.transitions.grad is not None
    assert bool(crf.transitions.grad.isfinite().all())
    assert bool((crf.transitions.grad.masked_select(crf.forbidden) == 0).all())
