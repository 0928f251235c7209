"""The peak memory of whole dumps: in both formats, of a corpus and of a tenth of it.

    python tests/benchmarks/dump_memory.py CORPUS [MODEL] [--tokens 800000]

Each dump runs in a process of its own, with default options; 800,000 tokens of `mini-en` are 2 GB of output. MB are
10^6 bytes, those of the model its weights as float32.
"""

import sys
import tempfile
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.dump import dump, sample

from elmo_model.shipped import model_folder
from elmo_model.weights import read_bilm


@click.command()
@click.argument("corpus")
@click.argument("model", default="mini-en")
@click.option("--tokens", default=800_000, show_default=True, help="Of the corpus to dump.")
@click.option("--format", "formats", multiple=True, default=["hdf5", "parquet"], show_default=True)
@click.option("--scratch", type=click.Path(path_type=Path), help="Where to write; a temporary folder by default.")
def main(corpus: str, model: str, tokens: int, formats: tuple[str, ...], scratch: Path | None) -> None:
    """Print the peaks, and the larger one as a multiple of the smaller."""
    size = 4 * sum(weights.numel() for weights in read_bilm(model_folder(model)).parameters()) / 1e6
    print(f"{model}: {size:.0f} MB")
    for shard_format in formats:
        peaks = []
        for count in (tokens // 10, tokens):
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                text = Path(folder, "corpus.txt")
                counted = sample(corpus, count, text)
                seconds, peak = dump(text, Path(folder, "out"), "--model", model, "--format", shard_format)
                written = sum(path.stat().st_size for path in Path(folder, "out").rglob("*") if path.is_file()) / 1e6
            peaks.append(peak)
            print(
                f"{shard_format}: {counted:,} tokens, {written:,.0f} MB written in {seconds:.0f} s, peak {peak:.0f} MB"
            )
        print(f"{shard_format}: {peaks[1] / peaks[0]:.2f} times the peak for ten times the corpus", flush=True)


if __name__ == "__main__":
    main()
