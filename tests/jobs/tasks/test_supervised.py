"""Whole runs of task models on a real store: they learn, move their mixes, repeat by seed, and check their data."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.extractor import Extractor
from elmo_model.scalar_mix import ScalarMix
from elmo_model.weights import read_bilm
from jobs.tasks.encoder import EncoderConfig, Inject
from jobs.tasks.features import FeatureMismatchError, join
from jobs.tasks.formats import LabelledSentence, TaggedSentence
from jobs.tasks.supervised import RunConfig, RunResult, Splits, run_supervised
from jobs.tasks.training import TrainConfig
from jobs.tasks.words import StaticVectors
from pipeline.errors import ConfigError, CorpusError, MissingColumnError, UnknownSentenceError
from pipeline.reader import FeatureStore
from pipeline.torch_data import FeatureDataset, collate
from support.tasks import dumped, tagged_sentences

SENTENCES = tagged_sentences(24)
SPLITS = Splits(train=SENTENCES, dev=SENTENCES[:8], test=SENTENCES[8:16])
SMALL = EncoderConfig(word_dim=8, character_filters=0, hidden=8, dropout=0.0, elmo_dropout=0.0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return dumped(SENTENCES, tmp_path_factory.mktemp("store"))


def config(*, inject: Inject = "none", epochs: int = 8, seed: int = 0, layers: str = "all") -> RunConfig:
    training = TrainConfig(epochs=epochs, batch_sentences=4, learning_rate=0.02, seed=seed)
    return RunConfig(encoder=replace(SMALL, inject=inject), training=training, layers=layers)


def run(store: FeatureStore, variant: RunConfig) -> RunResult:
    return run_supervised(SPLITS, variant, store=None if variant.encoder.inject == "none" else store)[0]


def test_the_baseline_learns_tags_that_depend_on_the_word(store: FeatureStore) -> None:
    result = run(store, config())
    assert result.measure == "accuracy"
    assert result.dev == 1.0
    assert result.test == 1.0
    assert result.mixes == {}


@pytest.mark.parametrize(
    ("inject", "places"), [("input", ["input"]), ("output", ["output"]), ("both", ["input", "output"])]
)
def test_each_place_has_a_mix_of_its_own_that_is_trained(
    store: FeatureStore, inject: Inject, places: list[str]
) -> None:
    result = run(store, config(inject=inject, epochs=3))
    assert list(result.mixes) == places
    for mix in result.mixes.values():
        assert len(mix["weights"]) == 3
        assert sum(mix["weights"]) == pytest.approx(1)
        assert max(abs(weight - 1 / 3) for weight in mix["weights"]) > 1e-4
        assert mix["gamma"] != 1.0


def test_features_alone_are_enough_to_learn_from(store: FeatureStore) -> None:
    variant = config(inject="input", epochs=20)
    variant = replace(variant, encoder=replace(variant.encoder, word_dim=0))
    assert run(store, variant).dev == 1.0


def test_a_large_penalty_keeps_the_mean_of_the_layers(store: FeatureStore) -> None:
    free, held = (
        replace(variant, encoder=replace(variant.encoder, layer_penalty=penalty))
        for penalty in (0.0, 1000.0)
        for variant in [config(inject="input", epochs=4)]
    )
    moved = [max(abs(w - 1 / 3) for w in run(store, variant).mixes["input"]["weights"]) for variant in (free, held)]
    assert moved[1] < moved[0] / 5


def test_the_last_layer_or_a_named_one_can_be_taken_alone(store: FeatureStore) -> None:
    last, second, first = (run(store, config(inject="input", epochs=1, layers=layers)) for layers in ("last", "2", "1"))
    assert last == second != first
    assert last.mixes["input"]["weights"] == [1.0]
    with pytest.raises(MissingColumnError, match="holds the layers 0, 1, 2, not 7"):
        run(store, config(inject="input", layers="7"))
    with pytest.raises(ConfigError, match="top"):
        config(layers="top")


def test_a_seed_repeats_a_run_exactly_and_another_does_not(store: FeatureStore) -> None:
    variant = replace(config(inject="both", epochs=2), encoder=replace(SMALL, inject="both", dropout=0.3))
    again = run(store, variant)
    assert run(store, variant) == again
    assert run(store, replace(variant, training=replace(variant.training, seed=1))) != again


def test_the_model_is_left_with_the_weights_of_its_best_epoch(store: FeatureStore) -> None:
    result = run(store, config(epochs=30))
    assert len(result.epochs) == result.best_epoch + TrainConfig.patience
    assert result.dev == max(epoch.score for epoch in result.epochs)


def test_entities_are_measured_by_f1_and_a_classifier_by_accuracy() -> None:
    entities = [
        TaggedSentence(id=s.id, tokens=s.tokens, tags=tuple("B-PLACE" if t == "Rome" else "O" for t in s.tokens))
        for s in SENTENCES
    ]
    result, _ = run_supervised(Splits(train=entities, dev=entities), config(epochs=12))
    assert (result.measure, result.dev, result.test) == ("F1", 1.0, None)
    labelled = [LabelledSentence(id=s.id, tokens=s.tokens, label=str("Rome" in s.tokens)) for s in SENTENCES]
    result, _ = run_supervised(Splits(train=labelled, dev=labelled), config(epochs=20))
    assert (result.measure, result.dev) == ("accuracy", 1.0)


def test_static_vectors_stay_as_they_are() -> None:
    words = StaticVectors(["cat", "rome"], np.ones((2, 5), dtype=np.float32))
    _, model = run_supervised(SPLITS, config(epochs=2), vectors=words)
    encoder = model.encoder.words
    assert encoder is not None
    assert int(encoder.has_static.sum()) == 2
    assert float(encoder.static[encoder.has_static[:, 0]].sum()) == 10.0
    assert encoder.width == 5


def test_labels_that_do_not_fit_the_features_are_named(store: FeatureStore) -> None:
    good = SENTENCES[5]
    assert join([good], store)[0].id == good.id
    longer = replace(good, tokens=(*good.tokens, "more"), tags=(*good.tags, "ADV"))
    with pytest.raises(FeatureMismatchError, match=r"'train\.tsv:6' has 7 labelled tokens but features for 6"):
        join([good, longer], store)
    other = replace(good, tokens=("dog", *good.tokens[1:]))
    with pytest.raises(FeatureMismatchError, match=r"token 0 of sentence 'train\.tsv:6' is 'dog'"):
        join([other], store)
    with pytest.raises(UnknownSentenceError, match=r"dev\.tsv:1"):
        join([replace(good, id="dev.tsv:1")], store)


def test_settings_that_contradict_the_data_are_refused(store: FeatureStore) -> None:
    with pytest.raises(ConfigError, match="features and inject go together"):
        run_supervised(SPLITS, config(), store=store)
    with pytest.raises(ConfigError, match="features and inject go together"):
        run_supervised(SPLITS, config(inject="input"))
    with pytest.raises(ConfigError, match="without input"):
        EncoderConfig(inject="output", word_dim=0, character_filters=0)
    with pytest.raises(ConfigError, match="at least one sentence"):
        Splits(train=[], dev=SENTENCES)
    broken = [replace(SENTENCES[1], tags=("B-A", "I-B"))]
    with pytest.raises(CorpusError, match=r"train\.tsv:2"):
        run_supervised(Splits(train=broken, dev=broken), config())


def test_mixing_stored_layers_equals_mixing_them_on_the_fly(store: FeatureStore, tmp_path: Path) -> None:
    mix = ScalarMix(3, raw_weights=[0.3, -1.0, 0.7], gamma=1.7)
    dataset = FeatureDataset(store)
    batch = collate([dataset[row] for row in range(8)])
    stored = mix(batch.layers, batch.mask)
    model = Path(store.manifest.settings["inputs"][0]["name"])
    assert model.name == "corpus.jsonl"
    folder = Path(str(store._folder.url)).parent / "model"
    columns = (
        Extractor(read_bilm(folder), columns=list(store.columns)).encode([s.tokens for s in SENTENCES[:8]]).columns
    )
    names = [("token", "token"), ("forward_1", "backward_1"), ("forward_2", "backward_2")]
    layers = torch.from_numpy(np.stack([np.concatenate([columns[n] for n in pair], axis=1) for pair in names]))[None]
    flat = mix(layers, torch.ones(1, layers.shape[2], dtype=torch.bool))[0]
    torch.testing.assert_close(stored[batch.mask], flat, atol=1e-6, rtol=0)


def test_training_on_stored_features_loads_neither_the_model_nor_beam() -> None:
    code = "import sys, jobs.tasks.supervised; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "elmo_model.scalar_mix" in loaded
    assert not {"elmo_model.bilm", "elmo_model.weights", "elmo_model.extractor", "apache_beam"} & set(loaded)
