"""A whole run of tagging or classification: data and features in, scores and learned layer weights out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from jobs.tasks.batches import TaskData, TaskSentence
from jobs.tasks.encoder import EncoderConfig, SentenceEncoder
from jobs.tasks.features import join
from jobs.tasks.formats import TaggedSentence, gold_labels
from jobs.tasks.metrics import accuracy, entity_f1
from jobs.tasks.models import Classifier, Tagger
from jobs.tasks.schemes import is_iob2, to_bioul
from jobs.tasks.training import Epoch, TrainConfig, best_epoch, evaluate, fit
from jobs.tasks.words import StaticVectors, WordIndex
from pipeline.errors import ConfigError, CorpusError
from pipeline.reader import FeatureStore


@dataclass(frozen=True, kw_only=True)
class Splits:
    """The labelled sentences of a task.

    Attributes:
        train: To learn from.
        dev: To choose the epoch by.
        test: To report on; may be empty.
    """

    train: Sequence[TaskSentence]
    dev: Sequence[TaskSentence]
    test: Sequence[TaskSentence] = ()

    def __post_init__(self) -> None:
        if not self.train or not self.dev:
            raise ConfigError("both the training and the development file need at least one sentence")

    @property
    def entities(self) -> bool:
        """Whether the tags mark entities, in IOB2."""
        # Of all parts: a small training set may have none.
        sentences = [*self.train, *self.dev, *self.test]
        return isinstance(sentences[0], TaggedSentence) and is_iob2(
            {tag for sentence in sentences for tag in gold_labels(sentence)}
        )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One variant of a task model.

    Attributes:
        encoder: Its sentence encoder.
        training: Its training.
        layers: `all` for a mix of all layers of the store, `last`, or one layer's number.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    training: TrainConfig = field(default_factory=TrainConfig)
    layers: str = "all"

    def __post_init__(self) -> None:
        if self.layers not in ("all", "last") and not self.layers.isdecimal():
            raise ConfigError(f"layers {self.layers!r} is not 'all', 'last' or a layer's number")


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What came of a run.

    Attributes:
        measure: `F1` of entities, or `accuracy`.
        dev: Best development score, between 0 and 1.
        test: Test score of that epoch; None without test sentences.
        best_epoch: Its number, from 1.
        epochs: All epochs.
        parameters: Trained numbers of the model.
        mixes: Learned layer weights and gamma at each place.
    """

    measure: str
    dev: float
    test: float | None
    best_epoch: int
    epochs: tuple[Epoch, ...]
    parameters: int
    mixes: dict[str, dict[str, Any]]


def run_supervised(
    splits: Splits,
    config: RunConfig,
    *,
    store: FeatureStore | None = None,
    vectors: StaticVectors | None = None,
    report: Callable[[int, Epoch], None] = lambda number, epoch: None,
) -> tuple[RunResult, Tagger | Classifier]:
    """Trains a tagger or a classifier, whichever the data is for, and measures it.

    Args:
        splits: The data.
        config: The variant.
        store: Features of all sentences; None exactly where the variant injects nothing.
        vectors: Static word vectors in place of learned ones.
        report: Called after every epoch.

    Raises:
        PipelineError: Labels and features do not fit each other, or the settings do not fit the data.
    """
    entities = splits.entities
    if entities:
        splits = _in_bioul(splits)
    only = chosen_layers(store, config.layers) if store is not None else None
    train, dev, test = (
        TaskData(sentences, features=join(sentences, store) if store is not None else None, only=only)
        for sentences in (splits.train, splits.dev, splits.test)
    )
    index = _word_index(splits, vectors)
    torch.manual_seed(config.training.seed)
    encoder = SentenceEncoder(config.encoder, index=index, vectors=vectors, elmo=train.layers_and_width())
    labels = sorted({label for sentence in splits.train for label in gold_labels(sentence)})
    tagging = isinstance(splits.train[0], TaggedSentence)
    model = Tagger(encoder, labels, entities=entities) if tagging else Classifier(encoder, labels)
    measure = entity_f1 if entities else accuracy
    epochs = fit(model, train, dev, index=index, config=config.training, measure=measure, report=report)
    best = best_epoch(epochs)
    result = RunResult(
        measure="F1" if entities else "accuracy",
        dev=epochs[best - 1].score,
        test=evaluate(model, test, index=index, measure=measure) if splits.test else None,
        best_epoch=best,
        epochs=tuple(epochs),
        parameters=sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        mixes=encoder.learned_mixes(),
    )
    return result, model


def chosen_layers(store: FeatureStore, layers: str) -> list[int] | None:
    """The layer numbers to read, None for all.

    Raises:
        MissingColumnError: The store does not hold the layer.
    """
    if layers == "all":
        return None
    held = sorted({column.layer for column in store.columns.values() if column.layer is not None})
    number = held[-1] if layers == "last" and held else int(layers) if layers.isdecimal() else 0
    store.layout.stacking([number])
    return [number]


def _in_bioul(splits: Splits) -> Splits:
    def converted(sentences: Sequence[TaskSentence]) -> list[TaskSentence]:
        result: list[TaskSentence] = []
        for sentence in sentences:
            assert isinstance(sentence, TaggedSentence)
            try:
                result.append(replace(sentence, tags=tuple(to_bioul(sentence.tags))))
            except ValueError as error:
                raise CorpusError(f"sentence {sentence.id!r}: {error}") from None
        return result

    return Splits(train=converted(splits.train), dev=converted(splits.dev), test=converted(splits.test))


def _word_index(splits: Splits, vectors: StaticVectors | None) -> WordIndex:
    known: dict[str, None] = {}
    if vectors is not None:
        for sentences in (splits.train, splits.dev, splits.test):
            words = (token.lower() for sentence in sentences for token in sentence.tokens)
            known.update((word, None) for word in words if word in vectors.index)
    return WordIndex.build((sentence.tokens for sentence in splits.train), known=known)
