"""The training kernel of the character CNN: all banks in one product, and a maximum with its own gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmo_model.characters import PADDING_ID
from elmo_model.token_encoder import CharacterTokenEncoder


def encode_words(encoder: CharacterTokenEncoder, ids: Tensor, *, product_dtype: torch.dtype) -> Tensor:
    """The vectors of words, (words, p), as the encoder gives them; fastest for words of about one length.

    Args:
        encoder: The weights.
        ids: Character rows, (words, characters).
        product_dtype: Type of the matrix products; the vectors have the type of the weights.
    """
    convolutions = [cast(nn.Conv1d, bank) for bank in encoder.convolutions]
    used = int((ids != PADDING_ID).sum(dim=1).max()) + max(bank.kernel_size[0] for bank in convolutions)
    with torch.autocast(ids.device.type, product_dtype, enabled=product_dtype == torch.bfloat16):
        if used > ids.shape[1]:
            vectors: Tensor = encoder(ids)
            return vectors.to(encoder.char_embed.dtype)
        embedded = F.embedding(ids[:, :used].t(), F.pad(encoder.char_embed, (0, 0, 1, 0)))
        pooled = convolve_and_pool(embedded, convolutions, product_dtype=product_dtype)
        biases = torch.cat([cast(Tensor, bank.bias) for bank in convolutions])
        activation = torch.relu if encoder.options.activation == "relu" else torch.tanh
        vectors = activation(pooled.to(biases.dtype) + biases)
        for layer in (*encoder.highways, *([] if encoder.projection is None else [encoder.projection])):
            vectors = layer(vectors)
        return vectors.to(biases.dtype)


def convolve_and_pool(embedded: Tensor, convolutions: Sequence[nn.Conv1d], *, product_dtype: torch.dtype) -> Tensor:
    """The maximum over positions of every filter, without the bias, (words, filters).

    All banks see the same positions: those at which the widest fits. Equal to the plain definition if every word
    leaves room for a widest window of padding after its end, since all further positions repeat that one.

    Args:
        embedded: Character vectors, positions leading, (characters, words, d).
        convolutions: The banks.
        product_dtype: Type of the products; the result has it too.
    """
    widest = max(convolution.kernel_size[0] for convolution in convolutions)
    # (filters, widest * d): a narrower bank has zeros where it doesn't look.
    weight = torch.cat([F.pad(bank.weight, (0, widest - bank.kernel_size[0])) for bank in convolutions])
    weight = weight.transpose(1, 2).flatten(1).to(product_dtype)
    windows = embedded.to(product_dtype).unfold(0, widest, 1).transpose(2, 3).flatten(2)
    pooled: Tensor = _ConvolveAndPool.apply(windows, weight)  # type: ignore[no-untyped-call]
    return pooled


class _ConvolveAndPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, windows: Tensor, weight: Tensor) -> Tensor:
        """Maxima (words, filters) of windows (positions, words, inputs) under a weight (filters, inputs)."""
        responses = windows @ weight.t()
        best = responses[0].clone()
        for response in responses[1:]:
            torch.maximum(best, response, out=best)
        ctx.save_for_backward(windows, weight, responses, best)
        return best

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        windows, weight, responses, best = ctx.saved_tensors
        # Positions that share the maximum share its gradient.
        count = torch.zeros_like(best)
        grad_responses = torch.empty_like(responses)
        for response, reached in zip(responses, grad_responses, strict=True):
            count += torch.eq(response, best, out=reached)  # 1 or 0; numbers are ten times as fast as booleans here
        grad_responses = grad_responses.mul_(grad / count).flatten(0, 1)
        grad_windows = (grad_responses @ weight).view_as(windows)
        return grad_windows, grad_responses.t() @ windows.flatten(0, 1)
