"""One loop for all task models: Adam, clipped gradients, the best epoch by development score, the same for a seed."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from jobs.tasks.batches import TaskData
from jobs.tasks.formats import gold_labels
from jobs.tasks.models import Classifier, Tagger
from jobs.tasks.words import WordIndex
from pipeline.errors import ConfigError

Measure = Callable[[Sequence[Sequence[str]], Sequence[Sequence[str]]], float]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a task model is trained.

    Attributes:
        epochs: The most passes over the data.
        patience: Epochs without a better development score after which training ends.
        batch_sentences: Sentences an update.
        learning_rate: Of Adam.
        grad_norm: Gradients are clipped to this norm.
        seed: Of the initial weights, the order of sentences and dropout.
    """

    epochs: int = 20
    patience: int = 5
    batch_sentences: int = 32
    learning_rate: float = 1e-3
    grad_norm: float = 5.0
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.epochs, self.patience, self.batch_sentences) < 1:
            raise ConfigError("epochs, patience and sentences a batch start at 1")
        if min(self.learning_rate, self.grad_norm) <= 0:
            raise ConfigError("learning rate and gradient norm must be above 0")


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """Mean training loss of the updates of an epoch, and the development score after it."""

    loss: float
    score: float


def fit(
    model: Tagger | Classifier,
    train: TaskData,
    dev: TaskData,
    *,
    index: WordIndex,
    config: TrainConfig,
    measure: Measure,
    report: Callable[[int, Epoch], None] = lambda number, epoch: None,
) -> list[Epoch]:
    """Trains a model and leaves it with the weights of its best epoch.

    Build the model after `torch.manual_seed(config.seed)`: then data, seed and number of threads determine the result.

    Args:
        model: Freshly built.
        train: To learn from.
        dev: To choose the epoch by.
        index: The words of the model.
        config: How to train.
        measure: The score, higher is better, of right and predicted labels.
        report: Called after every epoch with its number, from 1.

    Returns:
        The epochs that were run.
    """
    shuffle = torch.Generator().manual_seed(config.seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    epochs: list[Epoch] = []
    best, best_state = -1.0, model.state_dict()
    for number in range(1, config.epochs + 1):
        model.train()
        losses = []
        for batch in train.batches(index, size=config.batch_sentences, shuffle=shuffle):
            optimizer.zero_grad()
            loss = model.loss(batch)
            (loss + model.encoder.penalty()).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_norm)
            optimizer.step()
            losses.append(float(loss.detach()))
        epochs.append(Epoch(loss=sum(losses) / len(losses), score=evaluate(model, dev, index=index, measure=measure)))
        report(number, epochs[-1])
        if epochs[-1].score > best:
            best, best_state = epochs[-1].score, copy.deepcopy(model.state_dict())
        elif number - best_epoch(epochs) >= config.patience:
            break
    model.load_state_dict(best_state)
    return epochs


def best_epoch(epochs: Sequence[Epoch]) -> int:
    """The number, from 1, of the first epoch with the best score."""
    return 1 + max(range(len(epochs)), key=lambda position: epochs[position].score)


@torch.no_grad()
def evaluate(model: Tagger | Classifier, data: TaskData, *, index: WordIndex, measure: Measure) -> float:
    """The score of a model's predictions, in evaluation mode."""
    model.eval()
    right: list[Sequence[str]] = []
    predicted: list[Sequence[str]] = []
    for batch in data.batches(index, size=64):
        right += [gold_labels(sentence) for sentence in batch.sentences]
        predicted += model.predict(batch)
    return measure(right, predicted)
