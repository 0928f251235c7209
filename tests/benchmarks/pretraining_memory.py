"""Peak memory of pretraining on a corpus and on one ten times as large.

    python tests/benchmarks/pretraining_memory.py [--megabytes 200] [--folder DIR]

Each takes two steps of the `mini` shape in a process of its own, after it has read the whole corpus for its counts.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

WORDS_A_SENTENCE = 25
VOCABULARY = 50_000


def write_corpus(folder: Path, megabytes: int) -> None:
    """Random words with frequencies like those of prose, in files of 100 MB."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(VOCABULARY)])
    left = megabytes * 1_000_000
    number = 0
    while left > 0:
        with (folder / f"{number:03}.txt").open("w", encoding="utf-8") as file:
            written = 0
            while written < min(left, 100_000_000):
                drawn = np.minimum(generator.zipf(1.2, (4000, WORDS_A_SENTENCE)) - 1, VOCABULARY - 1)
                written += file.write("".join(" ".join(row) + "\n" for row in words[drawn]))
        left -= written
        number += 1


def peak(corpus: Path, model: Path) -> float:
    """Megabytes."""
    command = [
        sys.executable,
        "-m",
        "jobs",
        "pretrain",
        str(corpus),
        str(model),
        "--steps",
        "2",
        "--vocab-size",
        "40000",
    ]
    process = subprocess.Popen([*command, "--precision", "bfloat16"], stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"pretraining on {corpus} ended with status {status}")
    return usage.ru_maxrss / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    peaks = []
    for megabytes in (arguments.megabytes, 10 * arguments.megabytes):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            write_corpus(Path(folder) / "corpus", megabytes)
            peaks.append(peak(Path(folder) / "corpus", Path(folder) / "model"))
        print(f"{megabytes:,} MB of text: peak {peaks[-1]:,.0f} MB", flush=True)
    print(f"ratio {peaks[1] / peaks[0]:.2f}")


if __name__ == "__main__":
    main()
