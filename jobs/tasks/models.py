"""The task models: a biLSTM-CRF tagger (Lample et al. 2016) and a biLSTM classifier with pooling."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from jobs.tasks.batches import TaskBatch
from jobs.tasks.crf import LinearChainCrf
from jobs.tasks.encoder import SentenceEncoder
from jobs.tasks.formats import gold_labels
from jobs.tasks.schemes import may_follow


class Tagger(nn.Module):
    """A tag for each token, the sequence chosen by a CRF.

    Args:
        encoder: Gives the vectors of the tokens.
        tags: All tags; in BIOUL where they mark entities.
        entities: Whether they do; then only sequences that BIOUL allows are predicted.
    """

    def __init__(self, encoder: SentenceEncoder, tags: Sequence[str], *, entities: bool) -> None:
        super().__init__()
        self.encoder = encoder
        self.labels = list(tags)
        self._numbers = {tag: number for number, tag in enumerate(tags)}
        self.emissions = nn.Linear(encoder.width, len(tags))
        self.crf = LinearChainCrf(tags, may_follow=may_follow if entities else None)

    def loss(self, batch: TaskBatch) -> Tensor:
        """The mean negative log-likelihood of the sentences, a scalar."""
        tags = torch.zeros(batch.mask.shape, dtype=torch.int64)
        flat = [tag for sentence in batch.sentences for tag in gold_labels(sentence)]
        tags[batch.mask] = torch.tensor([self._numbers[tag] for tag in flat])
        return -self.crf.log_likelihood(self.emissions(self.encoder(batch)), tags, batch.mask).mean()

    def predict(self, batch: TaskBatch) -> list[list[str]]:
        """The tags of each sentence."""
        best = self.crf.decode(self.emissions(self.encoder(batch)), batch.mask)
        return [[self.labels[number] for number in sequence] for sequence in best]


class Classifier(nn.Module):
    """A label for each sentence, from the maximum and the mean of its token vectors."""

    def __init__(self, encoder: SentenceEncoder, labels: Sequence[str]) -> None:
        super().__init__()
        self.encoder = encoder
        self.labels = list(labels)
        self._numbers = {label: number for number, label in enumerate(labels)}
        self.scores = nn.Linear(2 * encoder.width, len(labels))

    def forward(self, batch: TaskBatch) -> Tensor:
        """The scores of the labels (batch, labels)."""
        vectors, real = self.encoder(batch), batch.mask[:, :, None]
        largest = vectors.masked_fill(~real, -torch.inf).amax(dim=1)
        mean = vectors.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1)
        scores: Tensor = self.scores(torch.cat([largest, mean], dim=1))
        return scores

    def loss(self, batch: TaskBatch) -> Tensor:
        """The mean cross-entropy of the sentences, a scalar."""
        labels = [self._numbers[label] for sentence in batch.sentences for label in gold_labels(sentence)]
        return nn.functional.cross_entropy(self(batch), torch.tensor(labels))

    def predict(self, batch: TaskBatch) -> list[list[str]]:
        """The label of each sentence, as a list of one."""
        return [[self.labels[number]] for number in self(batch).argmax(dim=1).tolist()]
