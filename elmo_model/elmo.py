"""ELMo inside somebody's model: layers computed on the fly, mixed, frozen or fine-tuned.

Where the biLM stays frozen, features computed once and stored give the same numbers and save their cost in every epoch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from elmo_model.bilm import BiLm, run_layers
from elmo_model.extractor import Sentence, check_sentences
from elmo_model.packing import pack
from elmo_model.scalar_mix import LayerNorm, ScalarMix, without_boundaries
from elmo_model.token_encoder import CharacterTokenEncoder


class ElmoOutput(NamedTuple):
    """What `Elmo` gives for a batch.

    Attributes:
        mixes: One tensor for each mix, float32 (batch, tokens, 2p), zero where there is no token.
        mask: True where there is a token (batch, tokens).
    """

    mixes: list[Tensor]
    mask: Tensor


class Elmo(nn.Module):
    """Token ids to learned mixes of a biLM's layers; every sentence starts from the zero state.

        elmo = Elmo(read_bilm("model/"), n_mixes=2)
        first, second = elmo(elmo.ids([["The", "cat", "sat"], ["Hello"]])).mixes

    Args:
        bilm: The model, which becomes part of this module.
        n_mixes: How many independent mixes to give, each with its own weights and gamma.
        fine_tune: Whether the biLM is trained; if not, nothing of it is kept for a backward pass.
        dropout: Rate of the dropout on each mix, in training mode.
        layer_norm: See `ScalarMix`; with `allennlp`, the sentence boundaries count as they do there.
    """

    def __init__(
        self,
        bilm: BiLm,
        *,
        n_mixes: int = 1,
        fine_tune: bool = False,
        dropout: float = 0.5,
        layer_norm: LayerNorm | None = None,
    ) -> None:
        super().__init__()
        self.bilm = bilm
        self.mixes = nn.ModuleList(
            ScalarMix(bilm.lstm.n_layers + 1, layer_norm=layer_norm, dropout=dropout) for _ in range(n_mixes)
        )
        self._mix_boundaries = layer_norm == "allennlp"
        self._absent_id = 0 if isinstance(bilm.token_encoder, CharacterTokenEncoder) else -1
        self.set_fine_tune(fine_tune)

    @property
    def width(self) -> int:
        """Width of a mix (2p)."""
        return self.bilm.lstm.projection_dim * len(self.bilm.directions)

    def set_fine_tune(self, fine_tune: bool) -> None:
        """Starts or stops training the biLM; for gradual unfreezing."""
        self.fine_tune = fine_tune
        self.bilm.requires_grad_(fine_tune)

    def ids(self, sentences: Sequence[Sentence]) -> Tensor:
        """What `forward` takes, for lists of tokens: int64 (batch, tokens, ...), padded at the end.

        For a model of characters these are the ids of the original programs, (batch, tokens, characters) with 0 where
        there is no token.

        Raises:
            TypeError: If a sentence is a string, or a token isn't one.
        """
        check_sentences(sentences)
        lengths = [len(sentence) for sentence in sentences]
        read = self.bilm.token_encoder.token_ids([token for sentence in sentences for token in sentence])
        ids = np.full((len(sentences), max(lengths, default=0), *read.shape[1:]), self._absent_id, dtype=np.int64)
        ids[np.arange(ids.shape[1]) < np.array(lengths)[:, None]] = read
        return torch.from_numpy(ids)

    def forward(self, ids: Tensor) -> ElmoOutput:
        """The mixes and the mask of ids as `ids` gives them.

        Raises:
            ValueError: If there are no sentences, or one has tokens after its padding.
        """
        with torch.set_grad_enabled(self.fine_tune and torch.is_grad_enabled()):
            layers, mask = self.layers(ids)
        if self._mix_boundaries:
            mixed = [without_boundaries(mix(layers, mask), mask)[0] for mix in self.mixes]
            return ElmoOutput(mixed, mask[:, 2:])
        inner = torch.stack([without_boundaries(layer, mask)[0] for layer in layers.unbind(dim=1)], dim=1)
        return ElmoOutput([mix(inner, mask[:, 2:]) for mix in self.mixes], mask[:, 2:])

    def layers(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The layers and mask with both sentence boundaries: (batch, L + 1, tokens + 2, 2p) and (batch, tokens + 2).

        Raises:
            ValueError: As `forward`.
        """
        if not len(ids):
            raise ValueError("the batch has no sentences")
        device = next(self.parameters()).device
        ids = ids.to(device)
        real = (ids != self._absent_id).flatten(2).any(dim=2) if ids.dim() > 2 else ids != self._absent_id
        lengths = real.sum(dim=1)
        if not torch.equal(real, torch.arange(ids.shape[1], device=device) < lengths[:, None]):
            raise ValueError("a sentence has tokens after its padding; pad at the end only")
        mask = torch.arange(ids.shape[1] + 2, device=device) < lengths[:, None] + 2
        tokens = self._token_vectors(ids, real, mask)
        packing = pack((lengths + 2).cpu().numpy())
        rows = [torch.from_numpy(packing.rows[direction]).to(device) for direction in self.bilm.directions]
        found = [tokens.repeat(1, len(rows))]
        states = self.bilm.zero_states(packing.n_sentences)
        for outputs, _ in run_layers(
            self.bilm.plain_layers(),
            [tokens[places] for places in rows],
            packing.batch_sizes,
            states,
            use_skip_connections=self.bilm.lstm.use_skip_connections,
        ):
            halves = [output[torch.argsort(places)] for output, places in zip(outputs, rows, strict=True)]
            found.append(torch.cat(halves, dim=1))
        stacked = torch.stack(found, dim=1)
        padded = stacked.new_zeros(*mask.shape, *stacked.shape[1:])
        return padded.masked_scatter(mask[:, :, None, None], stacked).transpose(1, 2), mask

    def _token_vectors(self, ids: Tensor, real: Tensor, mask: Tensor) -> Tensor:
        """The vectors of all tokens and boundaries of all sentences, one after the other, (tokens, p)."""
        encoder = self.bilm.token_encoder
        boundaries = torch.from_numpy(encoder.token_ids([encoder.begin_sentence, encoder.end_sentence])).to(ids)
        read = ids.new_empty(*mask.shape, *ids.shape[2:])
        read[:, 0] = boundaries[0]
        read[:, 1:][mask[:, 1:]] = boundaries[1]
        read[:, 1:-1][real] = ids[real]
        types, places = torch.unique(read[mask], dim=0, return_inverse=True)  # each word type is computed once
        vectors: Tensor = encoder(types)[places]
        return vectors
