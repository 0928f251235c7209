"""The fused cell against the plain one: on a GPU, or interpreted where Triton alone is installed."""

import os
import subprocess
import sys

import pytest
import torch

from elmo_model.kernels import cell

# Triton decides at import whether it interprets its kernels.
COMPARE = """
import sys
import torch
from elmo_model.kernels.cell import advance

device = sys.argv[1]
generator = torch.Generator().manual_seed(0)
for rows, cells, clip, dtype, tolerance in [
    (3, 7, None, torch.float32, 1e-6),
    (5, 300, 0.4, torch.float32, 1e-6),
    (4, 33, 3.0, torch.bfloat16, 1e-2),
]:
    space = torch.randn(2, rows + 2, cells, generator=generator).to(device)
    state, kept = space[:, :rows], space[:, rows:].clone()
    expected_state = state.clone()
    sums = (2 * torch.randn(2, rows, 4 * cells, generator=generator)).to(device, dtype)
    bias = torch.randn(2, 4 * cells, generator=generator).to(device)
    expected = advance(sums, bias, expected_state, cell_clip=clip, fused=False)
    found = advance(sums, bias, state, cell_clip=clip, fused=True)
    assert found.dtype == expected.dtype == dtype
    torch.testing.assert_close(found.float(), expected.float(), rtol=0, atol=tolerance)
    torch.testing.assert_close(state, expected_state, rtol=0, atol=1e-6)
    assert torch.equal(space[:, rows:], kept)
print("equal")
"""


@pytest.mark.skipif(not cell.has_fused(), reason="Triton isn't installed")
def test_the_fused_cell_equals_the_plain_one_and_touches_only_its_rows() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    environment = os.environ | ({} if device == "cuda" else {"TRITON_INTERPRET": "1"})
    done = subprocess.run(
        [sys.executable, "-c", COMPARE, device], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == "equal\n", done.stderr
