"""What the layers of a model know of parts of speech: a linear probe on each, beside untrained layers and word vectors.

    python tests/benchmarks/pos_probe.py mini-en DATA --vectors GLOVE
    python tests/benchmarks/pos_probe.py mini-en DATA --precision float32 --precision bfloat16 --precision int8

DATA holds train.tsv, dev.tsv and test.tsv, a token and its tag a line; GLOVE holds words.txt and vectors.npy.
The untrained model has the same shape and the initial values of the original training program. The second form
compares precisions of the computation instead, on the trained layers alone.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo_model.bilm import BiLm, build_bilm
from elmo_model.columns import model_columns
from elmo_model.extractor import Extractor
from elmo_model.kernels.select import Precision
from elmo_model.shipped import model_folder
from elmo_model.weights import read_bilm
from jobs.tasks.formats import Example, TaggedSentence, read_tagged
from jobs.tasks.probe import ProbeConfig, linear_probe
from jobs.tasks.sources import StaticSource, VectorSource
from jobs.tasks.words import StaticVectors

BATCH_TOKENS = 4096
Vectors = list[NDArray[np.float32]]


class Columns:
    """Columns of a model, side by side, of sentences that were encoded before."""

    def __init__(self, encoded: dict[str, dict[str, NDArray[np.float32]]], names: Sequence[str]) -> None:
        self._encoded = encoded
        self._names = names

    def of(self, sentences: Sequence[Example]) -> Vectors:
        """For each sentence, float32 (tokens, width)."""
        return [np.concatenate([self._encoded[s.id][name] for name in self._names], axis=1) for s in sentences]


def encode(
    bilm: BiLm, sentences: Sequence[TaggedSentence], precision: Precision
) -> dict[str, dict[str, NDArray[np.float32]]]:
    """The columns of each sentence, by its id."""
    names = [column.name for column in model_columns(bilm.options)]
    extractor = Extractor(bilm, columns=names, precision=precision)
    encoded = {}
    ordered = sorted(sentences, key=lambda sentence: len(sentence.tokens))
    for batch in _batches(ordered):
        columns = extractor.encode([sentence.tokens for sentence in batch]).columns
        ends = np.cumsum([len(sentence.tokens) for sentence in batch])[:-1]
        parts = {name: np.split(columns[name], ends) for name in names}
        for number, sentence in enumerate(batch):
            encoded[sentence.id] = {name: parts[name][number] for name in names}
    return encoded


def _batches(sentences: Sequence[TaggedSentence]) -> list[list[TaggedSentence]]:
    batches: list[list[TaggedSentence]] = [[]]
    for sentence in sentences:
        if batches[-1] and (len(batches[-1]) + 1) * len(sentence.tokens) > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(sentence)
    return batches


def representations(bilm: BiLm) -> dict[str, list[str]]:
    """The columns of each representation that is probed."""
    columns = model_columns(bilm.options)
    chosen = {"token vector": ["token"]}
    for layer in range(1, bilm.lstm.n_layers + 1):
        chosen[f"layer {layer}"] = [column.name for column in columns if column.layer == layer]
    return {**chosen, "all": [column.name for column in columns]}


def main() -> None:
    """Prints a table of accuracies in per cent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder, or name of a shipped model")
    parser.add_argument("data", type=Path, help="folder with train.tsv, dev.tsv and test.tsv")
    parser.add_argument("--vectors", type=Path, help="folder of static vectors: words.txt, vectors.npy")
    parser.add_argument("--precision", action="append", choices=["float32", "bfloat16", "int8"])
    parser.add_argument("--epochs", type=int, default=ProbeConfig.epochs)
    arguments = parser.parse_args()

    splits = {name: read_tagged(arguments.data / f"{name}.tsv") for name in ("train", "dev", "test")}
    config = ProbeConfig(epochs=arguments.epochs)

    def report(name: str, source: VectorSource) -> None:
        result = linear_probe(source, **splits, config=config)
        print(f"{name:28} dev {100 * result.dev:5.1f}  test {100 * result.test:5.1f}", flush=True)

    trained = read_bilm(model_folder(arguments.model))
    runs: list[tuple[str, BiLm, Precision]]
    if arguments.precision:
        runs = [(precision, trained, precision) for precision in arguments.precision]
    else:
        untrained = build_bilm(trained.options)
        untrained.reset_parameters(torch.Generator().manual_seed(0))
        untrained.eval().requires_grad_(False)
        runs = [("trained", trained, "float32"), ("untrained", untrained, "float32")]
    for title, bilm, precision in runs:
        encoded = encode(bilm, [sentence for split in splits.values() for sentence in split], precision)
        for name, columns in representations(bilm).items():
            report(f"{title}, {name}", Columns(encoded, columns))
    if arguments.vectors is not None:
        report("static vectors", StaticSource(StaticVectors.read(arguments.vectors)))


if __name__ == "__main__":
    main()
