"""The training kernels against the plain definitions, in value and in gradient."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._pytree import tree_leaves

from elmo_model.kernels import training
from elmo_model.kernels.plain import PlainLayer
from elmo_model.kernels.training import WindowLayer
from elmo_model.kernels.training_encoder import encode_words
from elmo_model.lstm import LstmState, ProjectedLstm
from elmo_model.options import CharCnnOptions, LstmOptions
from elmo_model.token_encoder import CharacterTokenEncoder

TIME, BATCH = 5, 3
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
WAYS = ["cpu", "cpu, as if recorded", pytest.param("cuda", marks=CUDA)]


def done_again(work: Callable[[], Any], device: torch.device) -> tuple[Callable[[], None], Any]:
    """What `record` gives, by doing the work anew and putting its result where the first one is."""
    result = work()

    def replay() -> None:
        for own, new in zip(tree_leaves(result), tree_leaves(work()), strict=True):
            if own is not None:
                own.copy_(new)

    return replay, result


def window_layer(layer: ProjectedLstm, way: str, monkeypatch: pytest.MonkeyPatch) -> WindowLayer:
    window = WindowLayer([layer], product_dtype=torch.float64)
    if way == "cpu, as if recorded":
        monkeypatch.setattr(training, "record", done_again)
        window._windows = [training._RecordedLoops(loops) for loops in window._windows]  # type: ignore[arg-type]
    return window


def random_layer(*, cells: int, width: int, clip: float | None, scale: float = 1.0) -> ProjectedLstm:
    options = LstmOptions(dim=cells, projection_dim=width, n_layers=1, cell_clip=clip, proj_clip=clip)
    layer = ProjectedLstm(options).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0.0, scale, generator=generator)
    return layer


def random_inputs(layer: ProjectedLstm) -> tuple[Tensor, LstmState]:
    generator = torch.Generator().manual_seed(1)

    def draw(rows: int, width: int) -> Tensor:
        return torch.randn(rows, width, generator=generator, dtype=torch.float64).to(layer.weight.device)

    return draw(TIME * BATCH, layer.width), LstmState(draw(BATCH, layer.n_cells), draw(BATCH, layer.width))


# Clips of 0.4 bite at many steps, in cells and in hidden states.
@pytest.mark.parametrize("clip", [None, 3.0, 0.4])
@pytest.mark.parametrize("cells", [7, 4])  # with a projection, and with none
@pytest.mark.parametrize("way", WAYS)
def test_window_equals_plain_in_outputs_states_and_gradients(
    clip: float | None, cells: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = random_layer(cells=cells, width=4, clip=clip).to(way.partition(",")[0])
    inputs, state = random_inputs(layer)
    window = window_layer(layer, way, monkeypatch)
    upstream = torch.randn(TIME * BATCH, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    upstream = upstream.to(inputs.device)
    for _ in range(3):  # a window reads what the one before left, and weights that have changed since
        inputs = inputs.detach().requires_grad_()
        weights = [inputs, *layer.parameters()]
        (plain,), (plain_state,) = PlainLayer([layer])([inputs], [BATCH] * TIME, [state])
        (fast,), (fast_state,) = window([inputs], [BATCH] * TIME, [state])
        torch.testing.assert_close(fast, plain, rtol=0, atol=1e-12)
        torch.testing.assert_close(fast_state, plain_state, rtol=0, atol=1e-12)
        wanted = torch.autograd.grad(plain, weights, upstream)
        torch.testing.assert_close(torch.autograd.grad(fast, weights, upstream), wanted, rtol=1e-10, atol=1e-12)
        with torch.no_grad():
            layer.weight.mul_(0.9)
        inputs, state = -fast.detach(), LstmState(*(part.detach() for part in fast_state))


@pytest.mark.parametrize("clip", [None, 0.4])
@pytest.mark.parametrize("way", WAYS)
def test_a_row_that_starts_anew_is_as_after_the_zero_state(
    clip: float | None, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = random_layer(cells=7, width=4, clip=clip).to(way.partition(",")[0])
    inputs, state = random_inputs(layer)
    upstream = torch.randn_like(inputs)
    keep = torch.ones(TIME, BATCH, 1, dtype=torch.float64, device=inputs.device)
    keep[3, 0] = keep[0, 1] = keep[1, 1] = 0
    weights = [inputs.requires_grad_(), *layer.parameters()]
    window = window_layer(layer, way, monkeypatch)
    (fast,), (fast_state,) = window([inputs], [BATCH] * TIME, [state], keep=keep)
    found = torch.autograd.grad(fast, weights, upstream)

    outputs = []
    for step, rows in enumerate(inputs.view(TIME, BATCH, -1)):
        state = LstmState(*(part * keep[step] for part in state))
        (plain,), (state,) = PlainLayer([layer])([rows], [BATCH], [state])
        outputs.append(plain)
    plain = torch.cat(outputs)
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(fast_state, state, rtol=0, atol=1e-12)
    wanted = torch.autograd.grad(plain, weights, upstream)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("way", WAYS[1:])
def test_a_recorded_window_refuses_a_gradient_after_the_next_window(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = random_layer(cells=7, width=4, clip=None).to(way.partition(",")[0])
    inputs, state = random_inputs(layer)
    window = window_layer(layer, way, monkeypatch)
    (first,), _ = window([inputs.requires_grad_()], [BATCH] * TIME, [state])
    window([inputs], [BATCH] * TIME, [state])
    with pytest.raises(RuntimeError, match="before the next one"):
        first.sum().backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("clip", [None, 0.4])
def test_window_gradient_is_that_of_finite_differences(clip: float | None) -> None:
    layer = random_layer(cells=3, width=2, clip=clip, scale=0.7)
    inputs, state = random_inputs(layer)
    names = [name for name, _ in layer.named_parameters()]

    def run(inputs: Tensor, *weights: Tensor) -> Tensor:
        copy = random_layer(cells=3, width=2, clip=clip)
        for name, weight in zip(names, weights, strict=True):
            del copy._parameters[name]
            setattr(copy, name, weight)
        return WindowLayer([copy], product_dtype=torch.float64)([inputs], [BATCH] * TIME, [state])[0][0]

    assert torch.autograd.gradcheck(run, (inputs.requires_grad_(), *layer.parameters()))


def test_bfloat16_products_stay_close_to_float32() -> None:
    layer = random_layer(cells=64, width=16, clip=3.0, scale=0.2).float()
    inputs, state = random_inputs(layer)
    rows, before = inputs.float(), LstmState(state.cell.float(), state.hidden.float())
    (plain,), _ = PlainLayer([layer])([rows], [BATCH] * TIME, [before])
    (fast,), (after,) = WindowLayer([layer], product_dtype=torch.bfloat16)([rows], [BATCH] * TIME, [before])
    assert fast.dtype == after.cell.dtype == torch.float32
    assert 0 < (fast - plain).abs().max() < 0.05 * plain.abs().max()


WORDS = st.lists(st.text(max_size=25), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(words=WORDS, activation=st.sampled_from(["relu", "tanh"]), highways=st.integers(0, 2))
def test_encoded_words_equal_plain_whatever_their_length(words: list[str], activation: str, highways: int) -> None:
    options = CharCnnOptions(
        embedding_dim=3,
        filters=((1, 2), (2, 3), (4, 3)),
        activation="relu" if activation == "relu" else "tanh",
        n_highway=highways,
        max_characters_per_token=16,
    )
    encoder = CharacterTokenEncoder(options, width=5).double()
    encoder.reset_parameters(torch.Generator().manual_seed(0))
    ids = torch.from_numpy(encoder.token_ids([*words, "a-word-as-long-as-its-row"[: len(words[0])]]))
    upstream = torch.randn(len(ids), 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    plain, fast = encoder(ids), encode_words(encoder, ids, product_dtype=torch.float64)
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-12)
    weights = list(encoder.parameters())
    wanted = torch.autograd.grad(plain, weights, upstream, allow_unused=True)
    torch.testing.assert_close(
        torch.autograd.grad(fast, weights, upstream, allow_unused=True), wanted, rtol=1e-9, atol=1e-12
    )
