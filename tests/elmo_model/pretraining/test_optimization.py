"""Learning rates and gradient clipping."""

import pytest
import torch

from elmo_model.pretraining.config import TrainingOptions
from elmo_model.pretraining.optimization import clip_global_norm, learning_rate


def test_the_published_rate_is_constant() -> None:
    options = TrainingOptions()
    assert [learning_rate(options, step=step, progress=step / 10) for step in range(10)] == [0.2] * 10


def test_the_rate_rises_then_falls_to_a_fiftieth() -> None:
    options = TrainingOptions(learning_rate=1.0, schedule="cosine", warmup_steps=9)
    assert learning_rate(options, step=0, progress=0.0) == pytest.approx(0.1)
    assert learning_rate(options, step=9, progress=0.0) == pytest.approx(1.0)
    assert learning_rate(options, step=50, progress=0.5) == pytest.approx(0.51)
    assert learning_rate(options, step=99, progress=1.0) == pytest.approx(0.02)
    assert learning_rate(options, step=99, progress=1.7) == pytest.approx(0.02)


@pytest.mark.parametrize(("bound", "scale"), [(None, 1.0), (14.0, 1.0), (6.5, 0.5)])
def test_gradients_are_scaled_together_to_the_bound(bound: float | None, scale: float) -> None:
    gradients = [torch.tensor([3.0, 4.0]), torch.tensor([[12.0]])]
    assert clip_global_norm(gradients, bound) == pytest.approx(13.0)
    assert [gradient.tolist() for gradient in gradients] == [[3 * scale, 4 * scale], [[12 * scale]]]
