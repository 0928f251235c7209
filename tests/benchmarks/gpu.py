"""The encoder of the full-size model on a GPU, against the matrix products it is made of, in one run.

    python tests/benchmarks/gpu.py TEXT [--tokens 200000] [--budget 65536]

TEXT has one tokenised sentence a line, or `FORM<tab>TAG` lines if it is called *.tsv. Tokens a second are by the clock,
everything counted: packing, both layers, and the copies of all columns to host memory. Token vectors are taken from the
cache, and how fast new ones are made stands beside. The ceiling is the rate of the products of both directions at 1,024
rows. The first 20 sentences are compared with the plain kernel on the CPU.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

from elmo_model.extractor import Extractor
from elmo_model.kernels.select import Precision
from elmo_model.kernels.tf32 import tf32
from support import speed

PRECISIONS: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
ROWS = 1024
ROUNDS = 20


def seconds(work: Callable[[], object]) -> float:
    """How long the GPU takes for some work, the mean of some rounds."""
    for _ in range(3):
        work()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    for _ in range(ROUNDS):
        work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / ROUNDS


def ceiling(precision: Precision) -> float:
    """FLOP a second of the products of a step in both directions."""
    products = [
        [torch.randn(2, *shape, device="cuda").to(PRECISIONS[precision]) for shape in ((ROWS, inner), (inner, outer))]
        for inner, outer in ((1024, 16384), (4096, 512))
    ]
    with tf32(allowed=precision == "tf32"):
        return 2 * ROWS * speed.STEP_FLOPS / sum(seconds(partial(torch.bmm, *pair)) for pair in products)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--budget", type=int, action="append")
    arguments = parser.parse_args()
    if arguments.text.suffix == ".tsv":
        sentences = speed.tagged_sentences(arguments.text, tokens=arguments.tokens)
    else:
        sentences = [line.split() for line in arguments.text.read_text(encoding="utf-8").splitlines()]
        total = np.cumsum([len(sentence) for sentence in sentences])
        sentences = sentences[: int(np.searchsorted(total, arguments.tokens)) + 1]
    tokens = sum(map(len, sentences))
    types = sorted({token for sentence in sentences for token in sentence})
    plain = Extractor(speed.full_size_bilm(), kernel="plain").encode(sentences[:20])
    rows = []
    for precision in PRECISIONS:
        extractor = Extractor(speed.full_size_bilm(), device="cuda", precision=precision)
        found = extractor.encode(sentences[:20])
        error = max(float(abs(found.columns[name] - rows).max()) for name, rows in plain.columns.items())
        started = time.perf_counter()
        extractor.token_vectors.of(types)
        torch.cuda.synchronize()
        types_rate = len(types) / (time.perf_counter() - started)
        for budget in arguments.budget or [65_536]:
            batches = speed.batches(sentences, budget=budget)
            for batch in batches:  # records the steps
                extractor.encode(batch)
            torch.cuda.synchronize()
            started = time.perf_counter()
            for batch in batches:
                extractor.encode(batch)
            rate = tokens / (time.perf_counter() - started)
            most = ceiling(precision)
            rows.append(
                [
                    precision,
                    budget,
                    f"{rate:,.0f}",
                    f"{types_rate:,.0f}",
                    f"{most / 1e12:.0f}",
                    f"{rate * speed.LSTM_FLOPS / most:.0%}",
                    f"{error:.1e}",
                ]
            )
            print(*rows[-1], file=sys.stderr, flush=True)
    print(f"{tokens:,} tokens on {torch.cuda.get_device_name()}, {extractor.kernel}, torch {torch.__version__}")
    header = ["precision", "batch tokens", "tokens/s", "new types/s", "ceiling TFLOP/s", "of it", "largest error"]
    print(speed.table(header, rows))


if __name__ == "__main__":
    main()
