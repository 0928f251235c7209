"""ELMoForManyLangs models whose encoder is an ordinary bidirectional LSTM, which gives one output and no layers."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

from elmo_model.extractor import Features, Sentence, available_device, check_sentences, count_remarks
from elmo_model.kernels.tokens import PlainTokens
from elmo_model.options import LstmOptions
from elmo_model.token_cache import CACHED_TYPES, TokenVectors
from elmo_model.token_encoder import TokenEncoder

OUTPUT = "output"


class LstmEncoder(nn.Module):
    """A token encoder, an LSTM whose layers from the second on read both directions, and one shared projection."""

    def __init__(self, token_encoder: TokenEncoder, *, lstm: LstmOptions) -> None:
        super().__init__()
        self.token_encoder = token_encoder
        self.lstm = nn.LSTM(lstm.projection_dim, lstm.dim, lstm.n_layers, bidirectional=True)
        self.projection = nn.Linear(lstm.dim, lstm.projection_dim)

    def forward(self, sentences: Sequence[Tensor]) -> list[Tensor]:
        """The output `[forward; backward]` (tokens, 2p) of each sentence's token vectors (tokens, p).

        Packed sentences end where they end. The original program lets its backward direction start in the padding, so
        that its results depend on the longest sentence of a batch; these are the ones it gives for a sentence alone.
        """
        hidden, _ = self.lstm(pack_sequence(list(sentences), enforce_sorted=False))
        return [
            torch.cat([self.projection(half) for half in rows.chunk(2, dim=1)], dim=1)
            for rows in unpack_sequence(hidden)
        ]


class LstmExtractor:
    """Gives the one column, `output`, of such a model; used like `elmo_model.extractor.Extractor`.

    Args:
        model: The model, which then belongs to the extractor.
        device: `cpu`, `cuda` or `cuda:N`.
        cached_types: Word types whose token vectors are kept.

    Attributes:
        device: The device.
        kernel: How the LSTM is computed.

    Raises:
        DeviceError: If the device isn't available.
    """

    kernel = "torch.nn.LSTM: the only one for this encoder"

    def __init__(self, model: LstmEncoder, *, device: str = "cpu", cached_types: int = CACHED_TYPES) -> None:
        self.device = available_device(device)
        self._model = model.to(self.device).eval()
        self._encoder = model.token_encoder
        self.token_vectors = TokenVectors(
            self._encoder,
            PlainTokens(self._encoder, device=self.device),
            capacity=cached_types,
            device=self.device,
        )

    @torch.inference_mode()
    def encode(self, sentences: Sequence[Sentence]) -> Features:
        """The output for a batch of sentences, float32 (tokens of all sentences, 2p) under `output`."""
        check_sentences(sentences)
        begin, end = self._encoder.begin_sentence, self._encoder.end_sentence
        read = [[begin, *sentence, end] for sentence in sentences]
        types = {token: place for place, token in enumerate(dict.fromkeys(t for sentence in read for t in sentence))}
        vectors = self.token_vectors.of(list(types))
        outputs = self._model([vectors[[types[token] for token in sentence]] for sentence in read])
        rows = torch.cat([output[1:-1] for output in outputs]).cpu().numpy()
        return Features(
            columns={OUTPUT: rows.astype(np.float32, copy=False)}, counts=count_remarks(self._encoder, sentences)
        )
