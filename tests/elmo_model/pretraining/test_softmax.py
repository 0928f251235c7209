"""The losses of the output layer against their plain definitions."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from elmo_model.pretraining.softmax import CHUNK_ROWS, Softmax

WORDS, WIDTH, ROWS = 60, 5, CHUNK_ROWS + 37  # more than one chunk of rows


@pytest.fixture
def softmax() -> Softmax:
    softmax = Softmax(n_words=WORDS, width=WIDTH).double()
    softmax.reset_parameters(torch.Generator().manual_seed(0))
    with torch.no_grad():
        softmax.bias.normal_(generator=torch.Generator().manual_seed(1))
    return softmax


def rows_and_targets() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    outputs = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64).requires_grad_()
    return outputs, torch.randint(WORDS, (ROWS,), generator=generator)


def plain_sampled_loss(
    softmax: Softmax, outputs: Tensor, targets: Tensor, candidates: Tensor, of_targets: Tensor, of_candidates: Tensor
) -> Tensor:
    true = (outputs * softmax.weight[targets]).sum(dim=1) + softmax.bias[targets] - of_targets
    sampled = outputs @ softmax.weight[candidates].T + softmax.bias[candidates] - of_candidates
    sampled = sampled.masked_fill(candidates == targets[:, None], float("-inf"))
    logits = torch.cat([true[:, None], sampled], dim=1)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64))


def test_sampled_loss_and_gradients_equal_the_plain_definition(softmax: Softmax) -> None:
    outputs, targets = rows_and_targets()
    candidates = torch.randperm(WORDS, generator=torch.Generator().manual_seed(3))[:20]
    assert torch.isin(targets, candidates).any(), "some candidates must be targets"
    generator = torch.Generator().manual_seed(4)
    expected = [torch.randn(n, generator=generator, dtype=torch.float64) for n in (ROWS, 20)]
    weights = [outputs, softmax.weight, softmax.bias]

    plain = plain_sampled_loss(softmax, outputs, targets, candidates, *expected)
    fast = softmax.sampled_loss(
        outputs,
        targets,
        candidates,
        log_expected_targets=expected[0],
        log_expected_candidates=expected[1],
        product_dtype=torch.float64,
    )

    torch.testing.assert_close(fast, plain, rtol=1e-12, atol=0)
    wanted = torch.autograd.grad(3 * plain, weights)
    torch.testing.assert_close(torch.autograd.grad(3 * fast, weights), wanted, rtol=1e-10, atol=1e-14)


def test_losses_over_all_words_are_cross_entropies(softmax: Softmax) -> None:
    outputs, targets = rows_and_targets()
    logits = outputs @ softmax.weight.T + softmax.bias
    wanted = torch.logsumexp(logits, dim=1) - logits.gather(1, targets[:, None]).squeeze(1)
    torch.testing.assert_close(softmax.losses(outputs, targets), wanted, rtol=1e-12, atol=1e-12)
