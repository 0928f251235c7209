"""Perplexity sentence by sentence: by definition, whatever the batches."""

import math

import pytest
import torch

from elmo_model.bilm import run_layers
from elmo_model.characters import BEGIN_SENTENCE, END_SENTENCE
from elmo_model.pretraining.evaluation import carried_perplexity, perplexity
from elmo_model.pretraining.streams import EmptyCorpusError
from elmo_model.vocabulary import Vocabulary
from support.pretraining import TRAINING, VOCABULARY, read_lines, small_trainer

VOCAB = Vocabulary.read(VOCABULARY)
# Sentences of many lengths, an empty one, and words the vocabulary lacks.
SENTENCES = [*read_lines(TRAINING / "heldout.txt"), *read_lines(TRAINING / "train.txt"), ["unheard", "of"], ["a"] * 30]


def one_by_one(sentences: list[list[str]]) -> dict[str, float]:
    """exp(total loss / predictions) of each direction, a sentence at a time."""
    model = small_trainer(SENTENCES).model.eval()
    total = dict.fromkeys(("forward", "backward"), 0.0)
    for sentence in sentences:
        for direction, words in (("forward", sentence), ("backward", sentence[::-1])):
            marks = (BEGIN_SENTENCE, END_SENTENCE) if direction == "forward" else (END_SENTENCE, BEGIN_SENTENCE)
            wrapped = [marks[0], *words, marks[1]]
            ids = torch.from_numpy(model.bilm.token_encoder.token_ids(wrapped[:-1]))
            layers = model.bilm.plain_layers((direction,))
            states = model.bilm.zero_states(1, (direction,))
            rows = [model.bilm.token_encoder(ids)]
            *_, ((top,), _) = run_layers(layers, rows, [1] * len(ids), states, use_skip_connections=True)
            logits = torch.log_softmax(top @ model.softmax.weight.T + model.softmax.bias, dim=1)
            targets = [VOCAB.id_of(word) for word in wrapped[1:]]
            total[direction] -= float(logits[range(len(targets)), targets].detach().sum())
    predictions = sum(len(sentence) + 1 for sentence in sentences)
    return {name: math.exp(loss / predictions) for name, loss in total.items()}


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_perplexity_is_that_of_the_sentences_one_by_one_at_any_batch_size(batch_size: int) -> None:
    model = small_trainer(SENTENCES).model
    result = perplexity(model, SENTENCES, vocabulary=VOCAB, batch_size=batch_size)
    wanted = one_by_one(SENTENCES)
    assert result.by_direction == pytest.approx(wanted, rel=1e-5)
    assert result.mean == pytest.approx(sum(wanted.values()) / 2, rel=1e-5)
    assert result.sentences == len(SENTENCES)
    assert result.tokens == sum(len(sentence) + 1 for sentence in SENTENCES)
    assert result.unknown == sum(word not in VOCAB for sentence in SENTENCES for word in sentence)


def test_a_forward_model_has_one_perplexity() -> None:
    model = small_trainer(SENTENCES, bidirectional=False).model
    result = perplexity(model, SENTENCES, vocabulary=VOCAB)
    assert list(result.by_direction) == ["forward"]
    assert result.mean == result.by_direction["forward"]


def test_carried_perplexity_needs_a_whole_batch() -> None:
    model = small_trainer(SENTENCES).model
    with pytest.raises(EmptyCorpusError, match="too short for one batch of 500 rows"):
        carried_perplexity(model, SENTENCES, vocabulary=VOCAB, batch_size=500)


def test_no_text_has_no_perplexity() -> None:
    with pytest.raises(EmptyCorpusError, match="no sentences"):
        perplexity(small_trainer(SENTENCES).model, [], vocabulary=VOCAB)
