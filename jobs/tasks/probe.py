"""A linear probe: how much of the tags one layer shows to a single linear classifier (Peters et al. 2018, 5.3)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from jobs.tasks.formats import TaggedSentence
from jobs.tasks.sources import VectorSource
from pipeline.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ProbeConfig:
    """How a probe is trained: Adam on single tokens, the epoch chosen by the development set.

    The learning rate falls evenly to zero: at a constant one the last step's noise costs a point of accuracy.
    """

    epochs: int = 20
    batch_tokens: int = 256
    learning_rate: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_tokens) < 1 or self.learning_rate <= 0:
            raise ConfigError("epochs and tokens a batch start at 1, and the learning rate must be above 0")


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """Accuracies over tokens, between 0 and 1, at the best epoch by `dev`."""

    dev: float
    test: float


def linear_probe(
    source: VectorSource,
    *,
    train: Sequence[TaggedSentence],
    dev: Sequence[TaggedSentence],
    test: Sequence[TaggedSentence],
    config: ProbeConfig,
) -> ProbeResult:
    """Trains one linear layer with a softmax from vectors to tags, and measures it.

    The vectors are first scaled to mean 0 and deviation 1 by the training data, so that layers of different size get
    the same chance from the same learning rate; that changes nothing a linear classifier can express.
    """
    tags = {tag: number for number, tag in enumerate(sorted({tag for sentence in train for tag in sentence.tags}))}
    x, y = _arrays(source, train, tags)
    mean, deviation = x.mean(0), x.std(0, correction=0).clamp(min=1e-6)
    x = (x - mean) / deviation
    held_out = [
        ((vectors - mean) / deviation, gold) for vectors, gold in (_arrays(source, s, tags) for s in (dev, test))
    ]
    torch.manual_seed(config.seed)
    probe = nn.Linear(x.shape[1], len(tags))
    optimizer = torch.optim.Adam(probe.parameters(), lr=config.learning_rate)
    steps = config.epochs * math.ceil(len(x) / config.batch_tokens)
    rate = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.0, total_iters=steps)
    best = ProbeResult(dev=-1.0, test=0.0)
    for _ in range(config.epochs):
        for rows in torch.split(torch.randperm(len(x)), config.batch_tokens):
            optimizer.zero_grad()
            nn.functional.cross_entropy(probe(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            rate.step()
        with torch.no_grad():
            dev_score, test_score = (
                float((probe(vectors).argmax(1) == gold).float().mean()) for vectors, gold in held_out
            )
        if dev_score > best.dev:
            best = ProbeResult(dev=dev_score, test=test_score)
    return best


def _arrays(source: VectorSource, sentences: Sequence[TaggedSentence], tags: dict[str, int]) -> tuple[Tensor, Tensor]:
    """All tokens: vectors (tokens, width), and tag numbers (tokens), -1 for a tag that training has never seen."""
    vectors = np.concatenate(source.of(sentences))
    gold = [tags.get(tag, -1) for sentence in sentences for tag in sentence.tags]
    return torch.from_numpy(vectors), torch.tensor(gold)
