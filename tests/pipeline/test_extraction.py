"""Features inside a pipeline of one's own."""

from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.ml.inference.base import KeyedModelHandler, PredictionResult, RunInference
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.dask.dask_runner import DaskRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from pipeline.config import EncodeConfig
from pipeline.encoding import Encoded
from pipeline.errors import ConfigError
from pipeline.extraction import ElmoModelHandler, ExtractFeatures, SentenceFeatures
from pipeline.records import Sentence
from support.fakes import COLUMNS, WIDTH, FakeEncoder, FakeEncoderFactory, fake_vector
from support.stores import make_sentences

SENTENCES = make_sentences([3, 0, 7, 1, 1, 20, 2, 0, 5])


def local_pipeline() -> beam.Pipeline:
    return beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))


def check(found: list[SentenceFeatures]) -> None:
    assert sorted(features.sentence.id for features in found) == sorted(sentence.id for sentence in SENTENCES)
    for features in found:
        tokens = features.sentence.tokens
        assert features.failure is None
        assert list(features.columns) == [column.name for column in COLUMNS]
        for name, array in features.columns.items():
            expected = np.array([fake_vector(name, tokens, position) for position in range(len(tokens))])
            np.testing.assert_array_equal(array, expected.reshape(-1, WIDTH))
            assert array.dtype == np.float32


@pytest.mark.parametrize("block_sentences", [1, 4, 1000])
def test_every_sentence_comes_out_with_its_own_features(block_sentences: int, tmp_path: Path) -> None:
    log = tmp_path / "loads"
    extract = ExtractFeatures(
        FakeEncoderFactory(load_log=str(log)), encode=EncodeConfig(batch_tokens=8), block_sentences=block_sentences
    )
    with local_pipeline() as pipeline:
        assert_that(pipeline | beam.Create(SENTENCES) | extract, check)
    assert log.read_text() == "loaded\n"


def test_a_sentence_that_fails_comes_out_with_the_reason() -> None:
    bad = Sentence(id="bad", tokens=("all", "goes", "BOOM"), text=None, source="a.txt", line=1)

    def one_failed(found: list[SentenceFeatures]) -> None:
        assert {features.sentence.id: features.failure for features in found if features.failure} == {
            "bad": "RuntimeError: boom"
        }
        assert len(found) == len(SENTENCES) + 1

    with local_pipeline() as pipeline:
        assert_that(pipeline | beam.Create([*SENTENCES, bad]) | ExtractFeatures(FakeEncoderFactory()), one_failed)


def test_windows_and_timestamps_are_kept() -> None:
    def in_their_windows(found: list[tuple[str, float, float]]) -> None:
        assert sorted(found) == sorted((s.id, 10.0 * n, 10.0 * n // 25 * 25) for n, s in enumerate(SENTENCES))

    def place(
        features: SentenceFeatures,
        timestamp: beam.utils.timestamp.Timestamp = beam.DoFn.TimestampParam,
        window: beam.transforms.window.IntervalWindow = beam.DoFn.WindowParam,
    ) -> tuple[str, float, float]:
        return features.sentence.id, float(timestamp), float(window.start)

    with local_pipeline() as pipeline:
        placed = (
            pipeline
            | beam.Create(enumerate(SENTENCES))
            | "Stamp" >> beam.MapTuple(lambda n, sentence: TimestampedValue(sentence, 10 * n))
            | beam.WindowInto(FixedWindows(25))
            | ExtractFeatures(FakeEncoderFactory())
            | beam.Map(place)
            | "Together" >> beam.WindowInto(beam.window.GlobalWindows())
        )
        assert_that(placed, in_their_windows)


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="carried"):
        ExtractFeatures(FakeEncoderFactory(), encode=EncodeConfig(carried_state=True, batch_sentences=2))
    with pytest.raises(ConfigError):
        ExtractFeatures(FakeEncoderFactory(), layers="7")
    pipeline = beam.Pipeline(runner=DaskRunner(), options=PipelineOptions([]))
    with pytest.raises(ConfigError, match="Dask"):
        pipeline | beam.Create(SENTENCES) | ExtractFeatures(FakeEncoderFactory())


@pytest.mark.parametrize("batch", [1, 4, 256])
def test_run_inference_keeps_keys_also_equal_ones(batch: int) -> None:
    def keyed(found: list[tuple[str, PredictionResult]]) -> None:
        assert len(found) == len(SENTENCES)
        for key, result in found:
            assert key == f"key{len(result.example.tokens) % 2}"
            assert result.inference.sentence == result.example
        check([result.inference for _, result in found])

    handler = KeyedModelHandler(ElmoModelHandler(FakeEncoderFactory(), max_batch_sentences=batch))
    with local_pipeline() as pipeline:
        pairs = pipeline | beam.Create([(f"key{len(s.tokens) % 2}", s) for s in SENTENCES])
        assert_that(pairs | RunInference(handler), keyed)


def test_a_handler_answers_in_order_and_does_not_pad_short_sentences_to_a_long_one() -> None:
    shapes: list[tuple[int, int]] = []

    class Watched(FakeEncoderFactory):
        def load(self, **settings: object) -> FakeEncoder:
            encoder = super().load(**settings)  # type: ignore[arg-type]
            encode = encoder.encode

            def watched(sentences: list[tuple[str, ...]]) -> Encoded:
                shapes.append((len(sentences), max(map(len, sentences))))
                return encode(sentences)

            encoder.encode = watched  # type: ignore[assignment,method-assign]
            return encoder

    handler = ElmoModelHandler(Watched(), encode=EncodeConfig(batch_tokens=21))
    answers = list(handler.run_inference(SENTENCES, handler.load_model()))
    assert [answer.example for answer in answers] == SENTENCES
    check([answer.inference for answer in answers])
    assert shapes == [(1, 20), (3, 7), (3, 2)]
    assert handler.get_num_bytes([SENTENCES[0]]) == len("w1é0w1é1w1é2".encode())
