"""The feature stores of a study, dumped when first needed."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.encoders.detect import encoder_factory
from jobs.run_dump import run_dump
from jobs.runners import RunnerConfig, threads_per_worker
from jobs.tasks.features import write_corpus
from jobs.tasks.formats import Example
from pipeline.config import DumpConfig, StoreConfig
from pipeline.errors import ConfigError
from pipeline.reader import FeatureStore
from pipeline.receipts import read_receipt
from pipeline.storage import Folder


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What the features of a store cost.

    Attributes:
        milliseconds: Of encoding, a token, on the machine and at the load of the dump.
        bytes: On disk, a token.
        width: Numbers a token, all layers together.
    """

    milliseconds: float
    bytes: float
    width: int


class FeatureStores:
    """Stores by encoder and corpus, in float16.

    Args:
        folder: Where they are kept, together with the corpora.
        models: The model of each encoder, as `elmo dump --model` takes it.
        say: Told what is being dumped.
    """

    def __init__(self, folder: Path, *, models: dict[str, str], say: Callable[[str], None]) -> None:
        self._folder = folder
        self._models = models
        self._say = say
        self._opened: dict[tuple[str, str], FeatureStore] = {}

    def store(self, encoder: str, dataset: str, sentences: Sequence[Example], *, preload: bool) -> FeatureStore:
        """The complete store of these sentences.

        Raises:
            ConfigError: There is no such encoder.
            PipelineError: As dumping says.
        """
        place = self._place(encoder, dataset, sentences)
        if (encoder, place.name) not in self._opened:
            if encoder not in self._models:
                raise ConfigError(f"encoder {encoder!r} is not one of {', '.join(self._models)}; name its model")
            self._dump(encoder, place, sentences)
            self._opened[encoder, place.name] = FeatureStore.open(place, preload=preload)
        return self._opened[encoder, place.name]

    def cost(self, encoder: str, dataset: str, sentences: Sequence[Example]) -> Cost:
        """The cost of a store that has been dumped."""
        place = self._place(encoder, dataset, sentences)
        manifest = self._opened[encoder, place.name].manifest
        receipts = [read_receipt(Folder(place), number) for number in range(len(manifest.shards))]
        return Cost(
            milliseconds=1000 * sum(receipt.encode_seconds for receipt in receipts) / manifest.tokens,
            bytes=sum(receipt.bytes for receipt in receipts) / manifest.tokens,
            width=sum(column.width for column in manifest.columns),
        )

    def _place(self, encoder: str, dataset: str, sentences: Sequence[Example]) -> Path:
        return self._folder / encoder / f"{dataset}-{digest_of(sentences)[:8]}"

    def _dump(self, encoder: str, place: Path, sentences: Sequence[Example]) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        corpus = place.with_name(f"{place.name}.jsonl")
        write_corpus(sentences, corpus)
        self._say(f"features of {len(sentences):,} sentences by {encoder}: {place}")
        runner = RunnerConfig()
        run_dump(
            [str(corpus)],
            str(place),
            encoder=encoder_factory(self._models[encoder], kernel="auto", threads=threads_per_worker(runner)),
            config=DumpConfig(store=StoreConfig(dtype="float16")),
        )


def digest_of(sentences: Sequence[Example]) -> str:
    """The SHA-256 of the ids and tokens of sentences, in hexadecimal."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(json.dumps([sentence.id, sentence.tokens]).encode())
    return digest.hexdigest()
