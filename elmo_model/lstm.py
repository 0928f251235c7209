"""The weights and the state of one projected, clipped LSTM layer in one direction."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo_model.options import LstmOptions


class LstmState(NamedTuple):
    """What an LSTM layer carries from one token to the next.

    Attributes:
        cell: Cell state after its clip, float32 (batch, c).
        hidden: Projected output after its clip, before any residual, float32 (batch, p).
    """

    cell: Tensor
    hidden: Tensor


class ProjectedLstm(nn.Module):
    """Parameters of one layer and one direction; `elmo_model.kernels` computes with them.

    Attributes:
        weight: (4c, 2p); columns 0..p-1 meet the input, p..2p-1 the hidden state; rows are the gates in the order
            of the weight files: input, candidate, forget, output.
        bias: (4c,), without the forget bias.
        projection: (p, c), or None for a layer whose cells are its output (p == c); no clip is applied to that.
        forget_bias: Added to the forget gate's sum; 1 in the original models.
        cell_clip: Bound on the cell state, or None.
        proj_clip: Bound on the projected output, or None.
    """

    def __init__(self, options: LstmOptions, *, project: bool | None = None, forget_bias: float = 1.0) -> None:
        super().__init__()
        cells, width = options.dim, options.projection_dim
        self.forget_bias = forget_bias
        self.cell_clip = options.cell_clip
        self.proj_clip = options.proj_clip
        self.weight = nn.Parameter(torch.zeros(4 * cells, 2 * width))
        self.bias = nn.Parameter(torch.zeros(4 * cells))
        self.projection: nn.Parameter | None = None
        if cells != width if project is None else project:
            self.projection = nn.Parameter(torch.zeros(width, cells))

    @property
    def n_cells(self) -> int:
        """Cells of the layer (c)."""
        return self.weight.shape[0] // 4

    @property
    def width(self) -> int:
        """Width of input and output (p)."""
        return self.weight.shape[1] // 2

    def zero_state(self, batch: int) -> LstmState:
        """The state before the first token, for a number of sentences."""
        return LstmState(self.weight.new_zeros(batch, self.n_cells), self.weight.new_zeros(batch, self.width))

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws the initial values of the original training program: Glorot uniform, zero bias."""
        for matrix in (self.weight, self.projection):
            if matrix is not None:
                bound = math.sqrt(6 / sum(matrix.shape))
                matrix.uniform_(-bound, bound, generator=generator)
        self.bias.zero_()
