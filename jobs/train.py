"""`elmo train`: task models on the features of a store, and the corpora that such a store is made from."""

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from jobs.tasks.encoder import EncoderConfig, Inject
from jobs.tasks.features import write_corpus, write_labels
from jobs.tasks.formats import Example, read_labelled, read_senses, read_tagged, read_trees
from jobs.tasks.probe import ProbeConfig, linear_probe
from jobs.tasks.sources import StaticSource, StoreLayer, VectorSource
from jobs.tasks.supervised import RunConfig, Splits, run_supervised
from jobs.tasks.training import Epoch, TrainConfig
from jobs.tasks.words import StaticVectors
from jobs.tasks.wsd import SenseVectors, read_first_senses, score_first, score_nearest
from pipeline.errors import ConfigError
from pipeline.reader import FeatureStore

READERS: dict[str, Callable[[Path], Sequence[Example]]] = {
    "tags": read_tagged,
    "labels": read_labelled,
    "trees": read_trees,
    "senses": read_senses,
}
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group()
def train() -> None:
    """Train small task models on the features of a store; the biLM itself is not needed any more.

    \b
    elmo train prepare --format tags train.tsv dev.tsv test.tsv -o corpus.jsonl
    elmo dump corpus.jsonl features/ --model MODEL
    elmo train tagging --train train.tsv --dev dev.tsv --test test.tsv --features features/
    """


@train.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--format", "data_format", type=click.Choice(list(READERS)), required=True, help="Of the files.")
@click.option("--output", "-o", type=FILE, required=True, help="JSON lines with id and tokens, for `elmo dump`.")
@click.option("--labels", type=FILE, help="Also write the labels, for `elmo plot word --labels`.")
def prepare(files: tuple[Path, ...], data_format: str, output: Path, labels: Path | None) -> None:
    """Write the sentences of labelled FILES as a corpus whose ids lead back to them."""
    examples = [example for file in files for example in READERS[data_format](file)]
    write_corpus(examples, output)
    if labels is not None:
        write_labels(examples, labels)
    click.echo(f"{output}: {len(examples):,} sentences")


def supervised_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that tagging and classification share."""
    options = [
        click.option("--train", "train_file", type=FILE, required=True, help="Labelled sentences to learn from."),
        click.option("--dev", "dev_file", type=FILE, required=True, help="To choose the epoch by."),
        click.option("--test", "test_file", type=FILE, help="To report on."),
        click.option("--features", help="Store with the features of all sentences; none for a baseline."),
        click.option(
            "--inject", type=click.Choice(get_args(Inject)), help="Where ELMo enters.  [default: input, with features]"
        ),
        click.option("--layers", default="all", show_default=True, help="all (mixed), last, or a layer's number."),
        click.option("--layer-penalty", default=EncoderConfig.layer_penalty, show_default=True, help="L2, on weights."),
        click.option("--elmo-dropout", default=EncoderConfig.elmo_dropout, show_default=True),
        click.option("--vectors", type=FOLDER, help="Static vectors (words.txt, vectors.npy) in place of learned."),
        click.option("--word-dim", default=EncoderConfig.word_dim, show_default=True, help="Of word vectors; 0: none."),
        click.option("--character-filters", default=EncoderConfig.character_filters, show_default=True),
        click.option("--hidden", default=EncoderConfig.hidden, show_default=True, help="Units a direction."),
        click.option("--rnn-layers", default=EncoderConfig.rnn_layers, show_default=True),
        click.option("--dropout", default=EncoderConfig.dropout, show_default=True),
        click.option("--epochs", default=TrainConfig.epochs, show_default=True, help="At most."),
        click.option("--patience", default=TrainConfig.patience, show_default=True, help="Epochs without a gain."),
        click.option("--batch-sentences", default=TrainConfig.batch_sentences, show_default=True),
        click.option("--learning-rate", default=TrainConfig.learning_rate, show_default=True),
        click.option("--seed", default=TrainConfig.seed, show_default=True),
        click.option("--output", "-o", type=FOLDER, help="Folder for result.json and model.safetensors."),
    ]
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


@train.command()
@supervised_options
def tagging(**options: Any) -> None:
    """Train a biLSTM-CRF tagger on TOKEN<tab>TAG files, and print accuracy, or F1 where the tags are IOB2."""
    _train_supervised(read_tagged, **options)


@train.command()
@supervised_options
def classification(**options: Any) -> None:
    """Train a biLSTM classifier on LABEL<tab>TEXT files, or on trees where a name ends with .trees.txt."""
    _train_supervised(_read_labelled_or_trees, **options)


def _read_labelled_or_trees(path: Path) -> Sequence[Example]:
    return read_trees(path) if path.name.endswith(".trees.txt") else read_labelled(path)


def _train_supervised(
    reader: Callable[[Path], Sequence[Any]],
    *,
    train_file: Path,
    dev_file: Path,
    test_file: Path | None,
    features: str | None,
    inject: Inject | None,
    vectors: Path | None,
    output: Path | None,
    layers: str,
    **settings: Any,
) -> None:
    if inject is None:
        inject = "none" if features is None else "input"
    encoder_names = EncoderConfig.__dataclass_fields__.keys()
    config = RunConfig(
        layers=layers,
        encoder=EncoderConfig(inject=inject, **{k: v for k, v in settings.items() if k in encoder_names}),
        training=TrainConfig(**{k: v for k, v in settings.items() if k not in encoder_names}),
    )
    splits = Splits(
        train=reader(train_file), dev=reader(dev_file), test=reader(test_file) if test_file is not None else ()
    )
    result, model = run_supervised(
        splits,
        config,
        store=FeatureStore.open(features, preload=True) if features is not None else None,
        vectors=StaticVectors.read(vectors) if vectors is not None else None,
        report=_print_epoch,
    )
    test = f", test {100 * result.test:.2f}" if result.test is not None else ""
    click.echo(f"{result.measure}: dev {100 * result.dev:.2f}{test}, of epoch {result.best_epoch}")
    for place, mix in result.mixes.items():
        weights = ", ".join(f"{weight:.3f}" for weight in mix["weights"])
        click.echo(f"layer weights at the {place}: {weights}; gamma {mix['gamma']:.3f}")
    if output is not None:
        from safetensors.torch import save_file  # noqa: PLC0415 -- only here

        output.mkdir(parents=True, exist_ok=True)
        save_file(
            {name: tensor.contiguous() for name, tensor in model.state_dict().items()}, output / "model.safetensors"
        )
        record = {"config": asdict(config), "labels": model.labels, "result": asdict(result)}
        (output / "result.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _print_epoch(number: int, epoch: Epoch) -> None:
    click.echo(f"epoch {number}: loss {epoch.loss:.4f}, dev {100 * epoch.score:.2f}")


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say what a probe looks at."""
    options = [
        click.option("--features", help="Store with the features of all sentences."),
        click.option("--layer", type=int, help="Which layer of the store; 0 is the token vector."),
        click.option("--vectors", type=FOLDER, help="Static vectors (words.txt, vectors.npy) instead of a store."),
    ]
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def _source(features: str | None, layer: int | None, vectors: Path | None) -> VectorSource:
    if vectors is not None and features is None and layer is None:
        return StaticSource(StaticVectors.read(vectors))
    if vectors is not None or features is None or layer is None:
        raise ConfigError("give --features with --layer, or --vectors alone")
    return StoreLayer(FeatureStore.open(features, preload=True), layer)


@train.command()
@click.option("--train", "train_file", type=FILE, required=True)
@click.option("--dev", "dev_file", type=FILE, required=True)
@click.option("--test", "test_file", type=FILE, required=True)
@source_options
@click.option("--epochs", default=ProbeConfig.epochs, show_default=True)
@click.option("--seed", default=ProbeConfig.seed, show_default=True)
def probe(
    train_file: Path,
    dev_file: Path,
    test_file: Path,
    features: str | None,
    layer: int | None,
    vectors: Path | None,
    epochs: int,
    seed: int,
) -> None:
    """Train a linear classifier from one layer to tags, token by token, and print its accuracy."""
    result = linear_probe(
        _source(features, layer, vectors),
        train=read_tagged(train_file),
        dev=read_tagged(dev_file),
        test=read_tagged(test_file),
        config=ProbeConfig(epochs=epochs, seed=seed),
    )
    click.echo(f"accuracy: dev {100 * result.dev:.2f}, test {100 * result.test:.2f}")


@train.command()
@click.option("--train", "train_files", type=FILE, required=True, multiple=True, help="SemCor; may be given again.")
@click.option("--test", "test_files", type=FILE, required=True, multiple=True, help="Test set; may be given again.")
@click.option("--first-senses", type=FILE, required=True, help="LEMMA<tab>POS<tab>FIRST SENSE, the fall-back.")
@source_options
def wsd(
    train_files: tuple[Path, ...],
    test_files: tuple[Path, ...],
    first_senses: Path,
    features: str | None,
    layer: int | None,
    vectors: Path | None,
) -> None:
    """Choose word senses by the nearest mean vector of an annotated corpus, and print F1 beside the first sense's."""
    source = _source(features, layer, vectors)
    first = read_first_senses(first_senses)
    corpus = [sentence for file in train_files for sentence in read_senses(file)]
    senses = SenseVectors(corpus, source)
    for file in test_files:
        sentences = read_senses(file)
        score = score_nearest(senses, sentences, source, first=first)
        baseline = score_first(sentences, first=first)
        click.echo(
            f"{file.name}: F1 {100 * score.f1:.1f} (first sense {100 * baseline.f1:.1f}), {score.total:,} words, "
            f"{score.fell_back:,} of lemmas that the corpus lacks"
        )
