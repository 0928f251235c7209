"""Perplexity over the full vocabulary: sentence by sentence, or as the original program computed it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from elmo_model.bilm import run_layers
from elmo_model.characters import BEGIN_SENTENCE, END_SENTENCE
from elmo_model.pretraining.language_model import LanguageModel, window_tensors
from elmo_model.pretraining.streams import EmptyCorpusError, SentenceSource, WindowStream
from elmo_model.vocabulary import Vocabulary

_POOL_SENTENCES = 2048  # sorted by length together, so that a batch holds sentences of similar length


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts text.

    Attributes:
        by_direction: exp(total loss / predictions), by direction.
        tokens: Predictions of each direction: the tokens and an end mark for each sentence.
        sentences: How many.
        unknown: Targets the vocabulary lacks, which count as its unknown word.
    """

    by_direction: dict[str, float]
    tokens: int
    sentences: int
    unknown: int

    @property
    def mean(self) -> float:
        """Arithmetic mean of the directions."""
        return sum(self.by_direction.values()) / len(self.by_direction)


@torch.no_grad()
def perplexity(
    model: LanguageModel, sentences: Iterable[Sequence[str]], *, vocabulary: Vocabulary, batch_size: int = 64
) -> Perplexity:
    """Perplexity with the full softmax, each sentence from zero state; the batch size only affects speed.

    Raises:
        EmptyCorpusError: There are no sentences.
    """
    model.eval()
    directions = model.bilm.directions
    totals = dict.fromkeys(directions, 0.0)
    tokens = unknown = count = 0
    for batch in _batches_by_length(sentences, batch_size):
        count += len(batch)
        tokens += sum(len(sentence) + 1 for sentence in batch)
        unknown += sum(token not in vocabulary for sentence in batch for token in sentence)
        for direction, loss in zip(directions, _sentence_losses(model, batch, vocabulary), strict=True):
            totals[direction] += loss
    if not tokens:
        raise EmptyCorpusError("there are no sentences to evaluate on")
    return Perplexity({name: math.exp(total / tokens) for name, total in totals.items()}, tokens, count, unknown)


@torch.no_grad()
def carried_perplexity(
    model: LanguageModel, sentences: Sequence[Sequence[str]], *, vocabulary: Vocabulary, batch_size: int = 256
) -> float:
    """Perplexity as the original test program gives it.

    That is: rows of single tokens, state carried through all sentences, exp of the unweighted mean loss of the batches,
    the last incomplete batch dropped. It depends on the batch size.

    Raises:
        EmptyCorpusError: There is less than one batch.
    """
    model.eval()
    directions = model.bilm.directions

    def once(epoch: int) -> Iterator[Sequence[str]]:
        return iter(sentences if epoch == 0 else ())

    streams = [
        WindowStream(SentenceSource(once, seed=None), rows=batch_size, steps=1, reverse=name == "backward")
        for name in directions
    ]
    states = model.zero_states(batch_size)
    total, batches = 0.0, 0
    device = model.softmax.weight.device
    while True:
        try:
            windows = [stream.next_window() for stream in streams]
        except EmptyCorpusError:
            break
        tensors = window_tensors(windows, encoder=model.bilm.token_encoder, vocabulary=vocabulary).to(device)
        vectors = model.token_vectors(tensors.token_ids)
        losses = []
        for number, direction in enumerate(directions):
            rows = F.embedding(tensors.types[number], vectors)
            top, states[number] = model.top_outputs(direction, rows, states[number])
            losses.append(model.softmax.losses(top, tensors.targets[number]).mean())
        total += float(torch.stack(losses).mean())
        batches += 1
    if not batches:
        raise EmptyCorpusError(f"the text is too short for one batch of {batch_size} rows; use a smaller batch size")
    return math.exp(total / batches)


def _batches_by_length(sentences: Iterable[Sequence[str]], batch_size: int) -> Iterator[list[Sequence[str]]]:
    pool: list[Sequence[str]] = []

    def drain() -> Iterator[list[Sequence[str]]]:
        pool.sort(key=len, reverse=True)
        for start in range(0, len(pool), batch_size):
            yield pool[start : start + batch_size]
        pool.clear()

    for sentence in sentences:
        pool.append(sentence)
        if len(pool) == _POOL_SENTENCES:
            yield from drain()
    yield from drain()


def _sentence_losses(model: LanguageModel, batch: Sequence[Sequence[str]], vocabulary: Vocabulary) -> list[float]:
    """Summed loss of each direction over sentences, longest first."""
    bilm, device = model.bilm, model.softmax.weight.device
    distinct = sorted({token for sentence in batch for token in sentence} | {BEGIN_SENTENCE, END_SENTENCE})
    number_of = {token: number for number, token in enumerate(distinct)}
    vectors = bilm.token_encoder(torch.from_numpy(bilm.token_encoder.token_ids(distinct)).to(device))
    steps = len(batch[0]) + 1
    batch_sizes = [sum(len(sentence) + 1 > step for sentence in batch) for step in range(steps)]
    inputs, targets = [], []
    for direction in bilm.directions:
        if direction == "forward":
            wrapped = [[BEGIN_SENTENCE, *sentence, END_SENTENCE] for sentence in batch]
        else:
            wrapped = [[END_SENTENCE, *reversed(sentence), BEGIN_SENTENCE] for sentence in batch]
        read = [number_of[wrapped[row][step]] for step, rows in enumerate(batch_sizes) for row in range(rows)]
        wanted = [
            vocabulary.id_of(wrapped[row][step + 1]) for step, rows in enumerate(batch_sizes) for row in range(rows)
        ]
        inputs.append(F.embedding(torch.tensor(read, device=device), vectors))
        targets.append(torch.tensor(wanted, device=device))
    *_, (tops, _) = run_layers(
        bilm.plain_layers(),
        inputs,
        batch_sizes,
        bilm.zero_states(len(batch)),
        use_skip_connections=bilm.lstm.use_skip_connections,
    )
    return [float(model.softmax.losses(top, wanted).double().sum()) for top, wanted in zip(tops, targets, strict=True)]
