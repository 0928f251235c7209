"""Labelled sentences as padded batches for a task model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jobs.tasks.formats import LabelledSentence, TaggedSentence
from jobs.tasks.words import WordIndex, byte_ids
from pipeline.features import Features
from pipeline.torch_data import Item, collate

# Sorting by length inside pools of so many batches keeps most of the chance and little of the padding.
POOL_BATCHES = 16

TaskSentence = TaggedSentence | LabelledSentence


@dataclass(frozen=True, kw_only=True)
class TaskBatch:
    """Some sentences, padded behind their last token.

    Attributes:
        sentences: The sentences with their labels.
        mask: True at tokens (batch, tokens).
        words: The number of each word type of the batch (types).
        characters: The bytes of each word type (types, bytes).
        places: Which type stands at each token (batch, tokens).
        layers: The features (batch, layers, tokens, width); None for a model without.
    """

    sentences: tuple[TaskSentence, ...]
    mask: Tensor
    words: Tensor
    characters: Tensor
    places: Tensor
    layers: Tensor | None


class TaskData:
    """Sentences with, if given, the features of each.

    Args:
        sentences: The labelled sentences.
        features: As `join` gives them, in the same order.
        only: Layer numbers to read; all by default.
    """

    def __init__(
        self,
        sentences: Sequence[TaskSentence],
        *,
        features: Sequence[Features] | None = None,
        only: Sequence[int] | None = None,
    ) -> None:
        self.sentences = sentences
        self._features = features
        self._only = only

    def __len__(self) -> int:
        return len(self.sentences)

    def layers_and_width(self) -> tuple[int, int] | None:
        """How many layers there are and how wide, None without features."""
        if self._features is None:
            return None
        layers, _, width = self._features[0].layers(only=self._only).shape
        return layers, width

    def batches(self, index: WordIndex, *, size: int, shuffle: torch.Generator | None = None) -> Iterator[TaskBatch]:
        """All sentences once, `size` at a time, those of like length together; in a random order with `shuffle`."""
        lengths = torch.tensor([len(sentence.tokens) for sentence in self.sentences])
        if shuffle is None:
            parts = list(torch.split(torch.argsort(lengths, stable=True), size))
        else:
            pools = torch.split(torch.randperm(len(self), generator=shuffle), POOL_BATCHES * size)
            by_length = [pool[torch.argsort(lengths[pool], stable=True)] for pool in pools]
            parts = [part for pool in by_length for part in torch.split(pool, size)]
            parts = [parts[number] for number in torch.randperm(len(parts), generator=shuffle).tolist()]
        for rows in parts:
            yield self._batch(rows.tolist(), index)

    def _batch(self, rows: Sequence[int], index: WordIndex) -> TaskBatch:
        sentences = tuple(self.sentences[row] for row in rows)
        lengths = torch.tensor([len(sentence.tokens) for sentence in sentences])
        mask = torch.arange(int(lengths.max()))[None, :] < lengths[:, None]
        numbers: dict[str, int] = {}
        flat = [numbers.setdefault(token, len(numbers)) for sentence in sentences for token in sentence.tokens]
        places = torch.zeros(mask.shape, dtype=torch.int64)
        places[mask] = torch.tensor(flat)
        layers = None
        if self._features is not None:
            items = [
                Item(self._features[row].id, torch.from_numpy(self._features[row].layers(only=self._only)))
                for row in rows
            ]
            layers = collate(items).layers
        return TaskBatch(
            sentences=sentences,
            mask=mask,
            words=torch.tensor([index.number(token) for token in numbers]),
            characters=byte_ids(list(numbers)),
            places=places,
            layers=layers,
        )
