"""Features inside a Beam pipeline of one's own: `sentences | ExtractFeatures(encoder)`, and a handler for RunInference.

    from jobs.encoders.bilm import BiLmEncoderFactory

    sentences | ExtractFeatures(BiLmEncoderFactory(model="model/")) | beam.Map(use)

Features are large: 10 kB a token for a full-size model. Whatever groups or reshuffles them afterwards moves all of
that, and a local runner holds it in memory. The dump itself writes them where they are computed, and uses none of this.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import apache_beam as beam
import numpy as np
from apache_beam.ml.inference.base import ModelHandler, PredictionResult
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue
from numpy.typing import NDArray

from pipeline.batching import batches_by_length
from pipeline.config import EncodeConfig
from pipeline.derivations import Selection, select_columns
from pipeline.encoding import Encoded, EncoderFactory
from pipeline.errors import ConfigError
from pipeline.guarding import GuardedEncoder
from pipeline.records import Sentence


@dataclass(frozen=True, kw_only=True)
class SentenceFeatures:
    """One sentence and what was computed of it.

    Attributes:
        sentence: As it came in.
        columns: float32 (tokens, width) for each column, or (width) of one with a row a sentence; empty if it failed.
        failure: Why it could not be computed; None if it was.
    """

    sentence: Sentence
    columns: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Extraction:
    """How sentences become features; small and picklable."""

    encoder: EncoderFactory
    selection: Selection
    encode: EncodeConfig
    max_failures: int

    @classmethod
    def of(cls, encoder: EncoderFactory, *, layers: str, encode: EncodeConfig | None, max_failures: int) -> Self:
        encode = encode or EncodeConfig()
        if encode.carried_state:
            raise ConfigError("state cannot be carried here: what comes next in a Beam pipeline is not defined")
        selection = select_columns(encoder.describe().columns, layers)
        return cls(encoder=encoder, selection=selection, encode=encode, max_failures=max_failures)

    def load(self) -> GuardedEncoder:
        """The model, in this process."""
        load = partial(
            self.encoder.load,
            columns=[column.name for column in self.selection.raw],
            device=self.encode.device,
            precision=self.encode.precision,
            carried_state=False,
        )
        return GuardedEncoder(load(), max_failures=self.max_failures)

    def features(self, encoder: GuardedEncoder, sentences: Sequence[Sentence]) -> list[SentenceFeatures]:
        """The features of the sentences, in the order given, computed in batches of similar lengths."""
        lengths = [len(sentence.tokens) for sentence in sentences]
        found: dict[int, SentenceFeatures] = {}
        for batch in batches_by_length(lengths, batch_tokens=self.encode.batch_tokens):
            for piece in encoder.encode(sentences, batch):
                if piece.encoded is None:
                    (position,) = piece.positions
                    found[position] = SentenceFeatures(sentence=sentences[position], failure=piece.reason)
                    continue
                for position, columns in self._cut(piece.encoded, piece.positions, lengths):
                    found[position] = SentenceFeatures(sentence=sentences[position], columns=columns)
        return [found.get(position) or self._empty(sentence) for position, sentence in enumerate(sentences)]

    def _cut(
        self, encoded: Encoded, positions: Sequence[int], lengths: Sequence[int]
    ) -> Iterator[tuple[int, dict[str, NDArray[np.float32]]]]:
        """What belongs to each of the sentences of a batch."""
        derived = self.selection.derive(encoded.columns, [lengths[position] for position in positions])
        start = 0
        for number, position in enumerate(positions):
            stop = start + lengths[position]
            rows: dict[str, Any] = {"token": slice(start, stop), "sentence": number}
            # Copies, so that a kept sentence does not keep its whole batch.
            yield position, {c.name: derived[c.name][rows[c.rows]].copy() for c in self.selection.stored}
            start = stop

    def _empty(self, sentence: Sentence) -> SentenceFeatures:
        """Of a sentence of no tokens, which is in no batch."""
        rows: dict[str, tuple[int, ...]] = {"token": (0,), "sentence": ()}
        columns = {c.name: np.zeros((*rows[c.rows], c.width), np.float32) for c in self.selection.stored}
        return SentenceFeatures(sentence=sentence, columns=columns)


class ExtractFeatures(beam.PTransform):  # type: ignore[misc]
    """`Sentence`s in, a `SentenceFeatures` for each out, failed ones included; windows and timestamps are kept.

    Args:
        encoder: Loaded once per process.
        layers: As `StoreConfig.layers`.
        encode: How sentences are batched and computed.
        block_sentences: What is collected before it is sorted by length and computed; a bundle may end earlier.
        max_failures: Failed sentences that one worker process accepts before it stops the job.

    Raises:
        ConfigError: The settings ask for carried state, or a layer that the encoder lacks; when applied: the runner is
            Dask's, which drops what a bundle emits at its end.
    """

    def __init__(
        self,
        encoder: EncoderFactory,
        *,
        layers: str = "all",
        encode: EncodeConfig | None = None,
        block_sentences: int = 1000,
        max_failures: int = 100,
    ) -> None:
        super().__init__()
        self._extraction = _Extraction.of(encoder, layers=layers, encode=encode, max_failures=max_failures)
        self._block_sentences = block_sentences

    def expand(self, sentences: beam.PCollection[Sentence]) -> beam.PCollection[SentenceFeatures]:
        """Computes each sentence where it is."""
        if type(sentences.pipeline.runner).__name__ == "DaskRunner":
            raise ConfigError("Dask's runner drops what a bundle emits at its end; run elmo dump on it, or use another")
        return sentences | beam.ParDo(_ExtractBlocks(self._extraction, self._block_sentences))


class _ExtractBlocks(beam.DoFn):  # type: ignore[misc]
    def __init__(self, extraction: _Extraction, block_sentences: int) -> None:
        super().__init__()
        self._extraction = extraction
        self._block_sentences = block_sentences
        self._shared = Shared()
        self._encoder: GuardedEncoder
        self._block: list[tuple[Sentence, Any, Any]] = []

    def setup(self) -> None:
        self._encoder = self._shared.acquire(self._extraction.load, tag=repr(self._extraction))

    def start_bundle(self) -> None:
        self._block = []

    def process(  # type: ignore[override, unused-ignore]
        self, sentence: Sentence, timestamp: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[SentenceFeatures]:
        self._block.append((sentence, timestamp, window))
        if len(self._block) >= self._block_sentences:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[SentenceFeatures]:
        yield from self._flush()

    def _flush(self) -> Iterator[SentenceFeatures]:
        block, self._block = self._block, []
        computed = self._extraction.features(self._encoder, [sentence for sentence, _, _ in block])
        for features, (_, timestamp, window) in zip(computed, block, strict=True):
            yield WindowedValue(features, timestamp, (window,))


class ElmoModelHandler(ModelHandler[Sentence, PredictionResult, GuardedEncoder]):  # type: ignore[misc]
    """For Beam's RunInference: `Sentence`s in, a PredictionResult with a SentenceFeatures for each out, in order.

    Wrap it in Beam's KeyedModelHandler for keys of one's own. RunInference batches by count; within each batch the
    sentences are computed in groups of similar lengths, so that a long one does not pad all others.

    Args:
        encoder: Loaded once per process.
        layers: As `StoreConfig.layers`.
        encode: How sentences are grouped and computed.
        max_batch_sentences: What RunInference hands over at most.
        max_failures: Failed sentences that one worker process accepts before it stops the job.

    Raises:
        ConfigError: The settings ask for carried state, or a layer that the encoder lacks.
    """

    def __init__(
        self,
        encoder: EncoderFactory,
        *,
        layers: str = "all",
        encode: EncodeConfig | None = None,
        max_batch_sentences: int = 256,
        max_failures: int = 100,
    ) -> None:
        super().__init__(max_batch_size=max_batch_sentences)
        self._extraction = _Extraction.of(encoder, layers=layers, encode=encode, max_failures=max_failures)

    def load_model(self) -> GuardedEncoder:
        """The model, in this process."""
        return self._extraction.load()

    def run_inference(
        self, batch: Sequence[Sentence], model: GuardedEncoder, inference_args: dict[str, Any] | None = None
    ) -> Iterable[PredictionResult]:
        """The features of a batch, in its order."""
        computed = self._extraction.features(model, batch)
        return [PredictionResult(features.sentence, features) for features in computed]

    def get_num_bytes(self, batch: Sequence[Sentence]) -> int:
        """The UTF-8 bytes of the tokens, for Beam's metrics; its default pickles the batch to measure it."""
        return sum(len(token.encode()) for sentence in batch for token in sentence.tokens)

    def get_metrics_namespace(self) -> str:
        """The name under which Beam's metrics stand."""
        return "elmo_features"
