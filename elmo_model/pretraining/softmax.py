"""The output layer of the language model and its two losses: over all words, and over sampled candidates."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

CHUNK_ROWS = 256  # rows of logits at a time: they stay in a processor's cache and never all exist
_ACCELERATOR_CHUNK_ROWS = 16384


class Softmax(nn.Module):
    """One weight vector and bias for each word, shared by both directions.

    Attributes:
        weight: (words, p).
        bias: (words,).
    """

    def __init__(self, *, n_words: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_words, width))
        self.bias = nn.Parameter(torch.zeros(n_words))

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws the initial values of the original training program."""
        self.weight.normal_(0.0, math.sqrt(1 / self.weight.shape[1]), generator=generator)
        self.bias.zero_()

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood of each target among all words, (rows,).

        Args:
            outputs: Top layer outputs, (rows, p).
            targets: Word ids, (rows,).
        """
        chunks = zip(torch.split(outputs, 4 * CHUNK_ROWS), torch.split(targets, 4 * CHUNK_ROWS), strict=True)
        return torch.cat(
            [F.cross_entropy(F.linear(rows, self.weight, self.bias), own, reduction="none") for rows, own in chunks]
        )

    def sampled_loss(
        self,
        outputs: Tensor,
        targets: Tensor,
        candidates: Tensor,
        *,
        log_expected_targets: Tensor,
        log_expected_candidates: Tensor,
        product_dtype: torch.dtype,
    ) -> Tensor:
        """Mean over rows of the cross-entropy of each target against the candidates.

        Logits are lowered by the logarithm of the expected count of their word; a candidate equal to the row's target
        is left out.

        Args:
            outputs: Top layer outputs, (rows, p).
            targets: Word ids, (rows,).
            candidates: Unique word ids, (candidates,).
            log_expected_targets: (rows,).
            log_expected_candidates: (candidates,).
            product_dtype: Type of the products with the candidates.
        """
        words = torch.cat([candidates, targets])
        vectors = F.embedding(words, self.weight)
        biases = F.embedding(words, self.bias.unsqueeze(1)).squeeze(1)
        n_candidates = len(candidates)
        true_logits = (outputs * vectors[n_candidates:]).sum(dim=1) + biases[n_candidates:] - log_expected_targets
        column_of = torch.full((len(self.weight),), -1, dtype=torch.int64, device=targets.device)
        column_of[candidates] = torch.arange(n_candidates, device=targets.device)
        loss: Tensor = _SampledCrossEntropy.apply(  # type: ignore[no-untyped-call]
            outputs,
            true_logits,
            vectors[:n_candidates],
            biases[:n_candidates] - log_expected_candidates,
            column_of[targets],
            product_dtype,
        )
        return loss


class _SampledCrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of the true against candidates' logits; gradients are made with the loss, by chunks."""

    @staticmethod
    def forward(
        ctx: Any,
        outputs: Tensor,
        true_logits: Tensor,
        vectors: Tensor,
        biases: Tensor,
        own_column: Tensor,
        product_dtype: torch.dtype,
    ) -> Tensor:
        products = vectors.to(product_dtype)
        losses = torch.empty_like(true_logits)
        grad_outputs = torch.empty_like(outputs)
        grad_true = torch.empty_like(true_logits)
        grad_vectors = torch.zeros_like(vectors)
        grad_biases = torch.zeros_like(biases)
        chunk_rows = CHUNK_ROWS if outputs.device.type == "cpu" else _ACCELERATOR_CHUNK_ROWS
        for start in range(0, len(outputs), chunk_rows):
            chunk = slice(start, start + chunk_rows)
            inputs = outputs[chunk].to(product_dtype)
            logits = outputs.new_empty(len(inputs), 1 + len(vectors))  # the true word's logit leads
            torch.add(torch.mm(inputs, products.t()), biases, out=logits[:, 1:])
            # A row whose target isn't among the candidates marks column 0, which is written next.
            logits.scatter_(1, own_column[chunk].unsqueeze(1) + 1, torch.finfo(logits.dtype).min)
            logits[:, 0] = true_logits[chunk]
            shares = torch.softmax(logits, dim=1)
            losses[chunk] = -shares[:, 0].clamp_min(torch.finfo(shares.dtype).tiny).log()
            grad_true[chunk] = shares[:, 0] - 1
            grad_biases += shares[:, 1:].sum(dim=0)
            candidate_shares = shares[:, 1:].to(product_dtype, memory_format=torch.contiguous_format)
            grad_outputs[chunk] = torch.mm(candidate_shares, products)
            grad_vectors += torch.mm(candidate_shares.t(), inputs)
        ctx.save_for_backward(grad_outputs, grad_true, grad_vectors, grad_biases)
        return losses.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor) -> tuple[Tensor | None, ...]:
        scale = grad_loss / len(ctx.saved_tensors[0])
        return (*(gradient * scale for gradient in ctx.saved_tensors), None, None)
