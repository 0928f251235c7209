"""The memory of the full-size encoder: weights once, and a work space that follows the batch.

    python tests/benchmarks/encoder_memory.py

Each line is a process of its own, on one thread; MB are resident, less what an interpreter with torch takes.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil
import torch

from elmo_model.extractor import Extractor
from elmo_model.kernels.select import Precision
from elmo_model.weights import read_bilm, write_bilm
from support import speed
from support.memory import peak_bytes

PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "int8")
CASES = [(precision, 4096) for precision in PRECISIONS] + [("float32", 8192), ("float32", 16_384)]
SENTENCE_TOKENS = 32


def resident() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6


def case(folder: str, precision: Precision, batch_tokens: int) -> None:
    torch.set_num_threads(1)
    torch.randn(8, 8) @ torch.randn(8, 8)
    before = resident()
    extractor = Extractor(read_bilm(folder), precision=precision, consume=True)
    loaded = resident() - before
    extractor.encode([["a"] * SENTENCE_TOKENS] * (batch_tokens // SENTENCE_TOKENS))
    print(json.dumps([loaded, peak_bytes() / 1e6 - before]))


def main() -> None:
    if len(sys.argv) > 1:
        case(sys.argv[1], sys.argv[2], int(sys.argv[3]))  # type: ignore[arg-type]
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = write_bilm(speed.full_size_bilm(), folder)
        size = files.weights.stat().st_size / 1e6
        for precision, batch_tokens in CASES:
            command = [sys.executable, __file__, folder, precision, str(batch_tokens)]
            loaded, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            result = batch_tokens * 5 * 512 * 4 / 1e6
            rows.append([precision, batch_tokens, f"{loaded:.0f}", f"{peak:.0f}", f"{result:.0f}"])
    print(f"weight file: {size:.0f} MB of float32")
    print(speed.table(["precision", "tokens a batch", "loaded, MB", "peak, MB", "of it results, MB"], rows))


if __name__ == "__main__":
    main()
