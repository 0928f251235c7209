"""How far the vectors of each precision are from the plain float32 definition, on a model and a tagging file.

python tests/benchmarks/precision_errors.py [MODEL] --text ../shared/data/pos-ud-english-ewt/test.tsv
"""

from pathlib import Path

import click
import numpy as np

from elmo_model.extractor import Extractor
from elmo_model.kernels.select import KernelName, Precision
from elmo_model.shipped import DEFAULT_MODEL, model_folder
from elmo_model.weights import read_bilm
from jobs.tasks.formats import read_tagged

RUNS: tuple[tuple[Precision, KernelName], ...] = (("float32", "auto"), ("bfloat16", "auto"), ("int8", "auto"))
BATCH = 100


@click.command()
@click.argument("model", default=DEFAULT_MODEL)
@click.option("--text", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--sentences", default=200, show_default=True)
def main(model: str, text: Path, sentences: int) -> None:
    """Print, for each column, the largest difference and the cosine over all vectors and of the worst one."""
    tokens = [sentence.tokens for sentence in read_tagged(text)[:sentences]]
    plain = encode(model, tokens, "float32", "plain")
    click.echo(
        f"{sum(map(len, tokens)):,} tokens; against plain float32: largest difference, cosine of all, worst cosine"
    )
    for precision, kernel in RUNS:
        found = encode(model, tokens, precision, kernel)
        for name, expected in plain.items():
            products = (found[name] * expected).sum(axis=1)
            cosines = products / (np.linalg.norm(found[name], axis=1) * np.linalg.norm(expected, axis=1))
            whole = products.sum() / (np.linalg.norm(found[name]) * np.linalg.norm(expected))
            largest = abs(found[name] - expected).max()
            click.echo(f"{precision:9} {name:11} {largest:.1e} {whole:.6f} {cosines.min():.6f}")


def encode(
    model: str, sentences: list[tuple[str, ...]], precision: Precision, kernel: KernelName
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """All columns in float64."""
    extractor = Extractor(read_bilm(model_folder(model)), precision=precision, kernel=kernel)
    batches = [extractor.encode(sentences[start : start + BATCH]).columns for start in range(0, len(sentences), BATCH)]
    return {name: np.concatenate([batch[name] for batch in batches]).astype(np.float64) for name in batches[0]}


if __name__ == "__main__":
    main()
