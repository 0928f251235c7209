"""Runs of a study, each done once: a finished one is found again by what determines it."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from jobs.studies.datasets import SENSES, SenseData, chosen, load_senses, load_splits
from jobs.studies.features import Cost, FeatureStores
from jobs.studies.spec import STATIC, Budget, Spec
from jobs.tasks.encoder import EncoderConfig
from jobs.tasks.formats import Example, TaggedSentence
from jobs.tasks.probe import ProbeConfig, linear_probe
from jobs.tasks.sources import StaticSource, StoreLayer, VectorSource
from jobs.tasks.supervised import RunConfig, Splits, chosen_layers, run_supervised
from jobs.tasks.training import TrainConfig
from jobs.tasks.words import StaticVectors
from jobs.tasks.wsd import SenseScore, SenseVectors, read_first_senses, score_first, score_nearest
from pipeline.errors import ConfigError
from pipeline.reader import FeatureStore

# The data set by which encoders are compared.
PROBED = "pos"
PROBE = ProbeConfig()


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What is kept of a finished run.

    Attributes:
        measure: `F1` or `accuracy`.
        scores: Between 0 and 1, by split.
        details: Epochs, sizes, layer weights and the like.
        seconds: How long it took; depends on the machine, the rest doesn't.
    """

    measure: str
    scores: dict[str, float]
    details: dict[str, Any]
    seconds: float


class Runner:
    """Does runs, or finds them done in `OUTPUT/runs`.

    Args:
        data: The folder of the data sets.
        output: Where features and runs are kept.
        models: The model of each encoder by its name.
        vectors: Static vectors; None without.
        budget: Of every run.
        say: Told what is being done.
    """

    def __init__(
        self,
        *,
        data: Path,
        output: Path,
        models: dict[str, str],
        vectors: StaticVectors | None,
        budget: Budget,
        say: Callable[[str], None],
    ) -> None:
        self._data = data
        self._runs = output / "runs"
        self._vectors = vectors
        self._budget = budget
        self._say = say
        self._stores = FeatureStores(output / "features", models=models, say=say)
        self._splits: dict[str, Splits] = {}
        self._senses: SenseData | None = None

    def run(self, spec: Spec, *, seed: int) -> RunRecord:
        """The record of a run, new or from before.

        Raises:
            PipelineError: Data, features and settings do not fit each other.
        """
        path = self._runs / f"{self._key(spec, seed)}.json"
        if path.exists():
            return RunRecord(**json.loads(path.read_text(encoding="utf-8"))["record"])
        started = time.monotonic()
        methods = {"model": self._model, "probe": self._probe, "senses": self._nearest, "first sense": self._first}
        record = replace(methods[spec.method](spec, seed), seconds=round(time.monotonic() - started, 1))
        kept = {"spec": asdict(spec), "seed": seed, "budget": asdict(self._budget), "record": asdict(record)}
        self._runs.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part")
        temporary.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)
        scores = ", ".join(f"{split} {100 * score:.2f}" for split, score in record.scores.items())
        self._say(f"{spec.describe()}, seed {seed}: {record.measure} {scores} ({record.seconds:.0f} s)")
        return record

    def examples(self, dataset: str) -> Sequence[Example]:
        """All sentences of a data set, as they are dumped."""
        if dataset == SENSES:
            return self._sense_data().sentences()
        splits = self._data_of(dataset)
        return [*splits.train, *splits.dev, *splits.test]

    def store(self, encoder: str, dataset: str) -> FeatureStore:
        """The features of a data set, dumped now if need be."""
        # The sense-annotated corpus is read once from start to end, the others again and again.
        return self._stores.store(encoder, dataset, self.examples(dataset), preload=dataset != SENSES)

    def layers(self, encoder: str) -> int:
        """The number of layers of an English encoder."""
        return self.store(encoder, PROBED).layout.stacking(None).layers

    def cost(self, encoder: str, dataset: str) -> Cost:
        """What the features of a data set cost, dumped now if need be."""
        self.store(encoder, dataset)
        return self._stores.cost(encoder, dataset, self.examples(dataset))

    def _key(self, spec: Spec, seed: int) -> str:
        # The sizes show in the examples themselves.
        budget = {name: value for name, value in asdict(self._budget).items() if name not in ("seeds", "sizes")}
        features = (
            None if spec.encoder in (None, STATIC) else self.store(spec.encoder, spec.dataset).manifest.fingerprint
        )
        labels = hashlib.sha256(repr(self.examples(spec.dataset)).encode()).hexdigest()
        determines = [asdict(spec), seed, budget, asdict(PROBE), labels, features]
        return hashlib.sha256(json.dumps(determines, sort_keys=True).encode()).hexdigest()[:16]

    def _model(self, spec: Spec, seed: int) -> RunRecord:
        splits = self._data_of(spec.dataset)
        size = max(1, round(spec.fraction * len(splits.train)))
        config = RunConfig(
            layers=spec.layers,
            encoder=EncoderConfig(inject=spec.inject, layer_penalty=spec.layer_penalty, hidden=self._budget.hidden),
            training=TrainConfig(
                # Few sentences in smaller batches: with full ones there would be hardly any updates.
                batch_sentences=min(TrainConfig.batch_sentences, max(1, size // 10)),
                epochs=self._budget.epochs,
                patience=self._budget.patience,
                learning_rate=self._budget.learning_rate,
                seed=seed,
            ),
        )
        result, _ = run_supervised(
            replace(splits, train=chosen(splits.train, size)),
            config,
            store=self.store(spec.encoder, spec.dataset) if spec.encoder is not None else None,
            vectors=self._static() if spec.words == "static" else None,
        )
        assert result.test is not None
        details = {
            "train_sentences": size,
            "best_epoch": result.best_epoch,
            "epochs": len(result.epochs),
            "parameters": result.parameters,
            "mixes": result.mixes,
        }
        scores = {"dev": result.dev, "test": result.test}
        return RunRecord(measure=result.measure, scores=scores, details=details, seconds=0.0)

    def _probe(self, spec: Spec, seed: int) -> RunRecord:
        train, dev, test = (
            [sentence for sentence in sentences if isinstance(sentence, TaggedSentence)]
            for sentences in vars(self._data_of(spec.dataset)).values()
        )
        config = replace(PROBE, seed=seed)
        result = linear_probe(self._source(spec), train=train, dev=dev, test=test, config=config)
        scores = {"dev": result.dev, "test": result.test}
        return RunRecord(measure="accuracy", scores=scores, details={}, seconds=0.0)

    def _nearest(self, spec: Spec, seed: int) -> RunRecord:
        data, first, source = self._sense_data(), self._first_senses(), self._source(spec)
        senses = SenseVectors(data.corpus, source)
        scores = {name: score_nearest(senses, sentences, source, first=first) for name, sentences in data.tests.items()}
        return _sense_record(scores)

    def _first(self, spec: Spec, seed: int) -> RunRecord:
        first = self._first_senses()
        tests = self._sense_data().tests
        return _sense_record({name: score_first(sentences, first=first) for name, sentences in tests.items()})

    def _source(self, spec: Spec) -> VectorSource:
        if spec.encoder == STATIC:
            return StaticSource(self._static())
        assert spec.encoder is not None
        store = self.store(spec.encoder, spec.dataset)
        only = chosen_layers(store, spec.layers)
        if only is None:
            raise ConfigError("a probe looks at one layer, not at all")
        return StoreLayer(store, only[0])

    def _static(self) -> StaticVectors:
        if self._vectors is None:
            raise ConfigError("this run needs static vectors: give --vectors")
        return self._vectors

    def _data_of(self, dataset: str) -> Splits:
        if dataset not in self._splits:
            self._splits[dataset] = load_splits(self._data, dataset, self._budget.sizes)
        return self._splits[dataset]

    def _sense_data(self) -> SenseData:
        if self._senses is None:
            self._senses = load_senses(self._data, self._budget.sizes)
        return self._senses

    def _first_senses(self) -> dict[tuple[str, str], str]:
        return read_first_senses(self._data / "wsd-semcor-raganato" / "first-senses.tsv")


def _sense_record(tests: dict[str, SenseScore]) -> RunRecord:
    total = SenseScore(right=0, total=0, fell_back=0)
    for score in tests.values():
        total = total + score
    details = {"words": total.total, "fell_back": total.fell_back} | {name: score.f1 for name, score in tests.items()}
    return RunRecord(measure="F1", scores={"test": total.f1}, details=details, seconds=0.0)
