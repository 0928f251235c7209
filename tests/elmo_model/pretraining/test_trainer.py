"""Training steps: one gradient of everything, exact continuation, steps that must not be taken, and learning."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from elmo_model.bilm import run_layers
from elmo_model.pretraining.gradients import window_gradients
from elmo_model.pretraining.language_model import LanguageModel, WindowTensors, window_tensors
from elmo_model.pretraining.trainer import Trainer
from elmo_model.vocabulary import Vocabulary
from support.pretraining import TRAINING, VOCABULARY, read_lines, small_trainer

LINES = read_lines(TRAINING / "train.txt")
SAMPLED: dict[str, Any] = {"sample_softmax": True, "n_negative_samples_batch": 8}
ADAM: dict[str, Any] = {"optimizer": "adam", "learning_rate": 0.02}


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}


def plain_loss(model: LanguageModel, window: WindowTensors) -> torch.Tensor:
    """Mean loss by the plain layers and one graph."""
    vectors = model.bilm.token_encoder(window.token_ids)
    rows = [F.embedding(types, vectors) for types in window.types]
    batch_sizes = [window.batch] * (len(rows[0]) // window.batch)
    states = model.bilm.zero_states(window.batch)
    *_, (tops, _) = run_layers(model.bilm.plain_layers(), rows, batch_sizes, states, use_skip_connections=True)
    logits = [top @ model.softmax.weight.T + model.softmax.bias for top in tops]
    return torch.stack([F.cross_entropy(own, t) for own, t in zip(logits, window.targets, strict=True)]).mean()


def test_gradients_by_direction_are_those_of_one_backward_pass() -> None:
    trainer = small_trainer(LINES)
    model = trainer.model.double()
    model.product_dtype = torch.float64
    windows = [stream.next_window() for stream in trainer.streams]
    tensors = window_tensors(windows, encoder=model.bilm.token_encoder, vocabulary=trainer.vocabulary)
    (5 * plain_loss(model, tensors)).backward()  # type: ignore[no-untyped-call]
    result = window_gradients(
        model,
        tensors,
        model.zero_states(3),
        loss=lambda _, top, targets: model.softmax.losses(top, targets).mean(),
        scale=5,
        generators=[torch.Generator(), torch.Generator()],
    )
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(result.gradients[parameter], parameter.grad, rtol=1e-8, atol=1e-12, msg=name)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("changes", [{"carry_state": False}, SAMPLED, {**ADAM, **SAMPLED, "dropout": 0.2}])
def test_half_the_steps_and_a_restored_half_equal_all_steps(changes: dict[str, Any], bidirectional: bool) -> None:
    options = {**changes, "bidirectional": bidirectional, "schedule": "cosine", "warmup_steps": 3}
    straight, first, second = (small_trainer(LINES, **options) for _ in range(3))
    straight_reports = [straight.step(progress=step / 20) for step in range(20)]
    for step in range(10):
        first.step(progress=step / 20)
    saved = {name: tensor.clone() for name, tensor in first.tensors().items()}
    values = first.values()
    first.step(progress=0.5)  # what happens after saving must not matter
    second.restore(saved, values)
    assert second.step_number == 10
    assert [second.step(progress=step / 20) for step in range(10, 20)] == straight_reports[10:]
    for name, weight in weights(straight).items():
        assert torch.equal(weight, weights(second)[name]), name


@pytest.mark.parametrize(("changes", "factor"), [({}, 0.96), (ADAM, 0.8), (SAMPLED, 0.96)])
def test_loss_falls(changes: dict[str, Any], factor: float) -> None:
    trainer = small_trainer(LINES, **changes)
    losses = [trainer.step(progress=0.0).loss for _ in range(80)]
    assert sum(losses[-10:]) < factor * sum(losses[:10])


def test_a_word_table_is_trained_as_well() -> None:
    vocabulary = Vocabulary.read(VOCABULARY)
    trainer = small_trainer(LINES, char_cnn=None, **ADAM)
    assert not hasattr(trainer.model.bilm.token_encoder, "char_embed")
    losses = [trainer.step(progress=0.0).loss for _ in range(40)]
    assert losses[0] == pytest.approx(math.log(len(vocabulary)), abs=1.0)
    assert losses[-1] < 0.8 * losses[0]


def test_a_step_without_finite_loss_changes_nothing_but_the_position() -> None:
    trainer = small_trainer(LINES)
    trainer.step(progress=0.0)
    with torch.no_grad():
        trainer.model.softmax.bias[0] = float("nan")
    before, state = weights(trainer), trainer.states
    report = trainer.step(progress=0.0)
    assert report.skipped == "loss or gradient isn't finite"
    assert trainer.step_number == 2
    assert trainer.states is state
    for name, weight in weights(trainer).items():
        torch.testing.assert_close(weight, before[name], rtol=0, atol=0, equal_nan=True)


def test_a_sudden_spike_of_the_loss_is_not_learned_from() -> None:
    trainer = small_trainer(LINES)
    for _ in range(220):
        trainer.step(progress=0.0)
    with torch.no_grad():
        trainer.model.softmax.weight.mul_(40)
    before = weights(trainer)
    report = trainer.step(progress=0.0)
    assert report.skipped is not None and "far above its mean" in report.skipped
    assert all(torch.equal(weight, before[name]) for name, weight in weights(trainer).items())


def test_dropout_draws_anew_each_step_and_only_in_training() -> None:
    model = small_trainer(LINES, dropout=0.5).model
    rows = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
    states = model.zero_states(3)[0]
    generator = torch.Generator().manual_seed(1)
    first, second = (model.train().top_outputs("forward", rows, states, generator=generator)[0] for _ in range(2))
    assert not torch.equal(first, second)
    assert 0.3 < float((first == 0).float().mean()) < 0.7  # the top output is dropped as well
    calm = [model.eval().top_outputs("forward", rows, states)[0] for _ in range(2)]
    assert torch.equal(*calm)
    assert not (calm[0] == 0).any()


@pytest.mark.parametrize("carry_state", [True, False])
def test_a_sentence_reads_the_state_of_the_one_before_only_if_it_is_carried(carry_state: bool) -> None:
    sentence = ["the", "cat", "sat", "on", "it"]  # with a boundary in front it fills a window
    trainer = small_trainer([sentence], carry_state=carry_state, dropout=0.0, learning_rate=1e-9)
    first, second = (trainer.step(progress=0).loss for _ in range(2))
    assert (second == pytest.approx(first, rel=1e-6)) == (not carry_state)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("changes", [{}, SAMPLED, {**ADAM, **SAMPLED}])
def test_steps_on_a_gpu_are_those_on_the_cpu(changes: dict[str, Any]) -> None:
    here, there, resumed = (small_trainer(LINES, device=device, **changes) for device in ("cpu", "cuda", "cuda"))
    # Adam turns rounding errors of tiny gradients into whole steps, so that the runs part after a while.
    losses = [(here.step(progress=0).loss, there.step(progress=0).loss) for _ in range(3)]
    for own, other in losses:
        assert other == pytest.approx(own, rel=1e-4)
    resumed.restore({name: tensor.clone() for name, tensor in there.tensors().items()}, there.values())
    assert resumed.step(progress=0).loss == pytest.approx(there.step(progress=0).loss, rel=1e-6)
