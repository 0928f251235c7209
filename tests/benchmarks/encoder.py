"""The encoder of the full-size model against the matrix products it is made of, by precision, columns or budget.

    python tests/benchmarks/encoder.py precisions|columns|budgets [--tokens 20000] [--text FILE.tsv] [--threads N]

`precisions` compares float32, bfloat16 and int8 with the ceiling of their products; `columns` shows what is saved when
only some are asked for; `budgets` how many tokens a batch should have. Each ratio is of rates measured in the same run,
and counts the products that have to be done: those of the LSTMs for each token, and under "all" those of the token
encoder for each word type, none of which is known at the start. The ceiling is measured between batches, on as many
threads. "LSTM" and "all" compare processor times; "by the clock" is "all" by the time that passes, for both.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from elmo_model.extractor import Extractor
from elmo_model.kernels.select import Precision
from pipeline.config import EncodeConfig
from support import speed

EWT = Path(__file__).resolve().parents[3] / "shared/data/pos-ud-english-ewt/dev.tsv"
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "int8")
COLUMN_SETS = (
    None,
    ["token"],
    ["token", "forward_1", "backward_1"],
    ["forward_2", "backward_2"],
    ["forward_2"],
)


class Rate(NamedTuple):
    """Of a run: seconds by the clock and of the processor, those for new word types within each, and the ceilings."""

    wall: float
    processor: float
    types_wall: float
    types_processor: float
    ceiling: float
    clock_ceiling: float


def measure(sentences: speed.Sentences, *, precision: Precision, columns: list[str] | None, budget: int) -> Rate:
    extractor = Extractor(speed.full_size_bilm(), columns=columns, precision=precision, consume=True)
    ceiling = speed.Ceiling(precision, threads=torch.get_num_threads())
    wall = processor = types_wall = types_processor = 0.0
    for batch in speed.batches(sentences, budget=budget):
        ceiling.measure()
        types = list(dict.fromkeys(token for sentence in batch for token in sentence))
        clock, started = time.perf_counter(), time.process_time()
        extractor.token_vectors.of(types)
        types_wall += time.perf_counter() - clock
        types_processor += time.process_time() - started
        extractor.encode(batch)
        wall += time.perf_counter() - clock
        processor += time.process_time() - started
    ceiling.measure()
    return Rate(wall, processor, types_wall, types_processor, ceiling.rate, ceiling.clock_rate)


def show(name: str, rate: Rate, sentences: speed.Sentences, *, whole: bool) -> list[object]:
    tokens = sum(map(len, sentences))
    lstm = tokens * speed.LSTM_FLOPS / 1e9
    every = lstm + sum(map(speed.type_flops, {token for sentence in sentences for token in sentence})) / 1e9
    row: list[object] = [
        name,
        f"{tokens / rate.wall:.0f}",
        f"{tokens / rate.processor:.0f}",
        f"{rate.types_processor / rate.processor:.1%}",
        f"{rate.ceiling:.0f}, {rate.clock_ceiling:.0f}",
        f"{lstm / (rate.processor - rate.types_processor) / rate.ceiling:.2f}",
        f"{every / rate.processor / rate.ceiling:.2f}",
        f"{every / rate.wall / rate.clock_ceiling:.2f}",
    ]
    return row if whole else [*row[:-3], "", "", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["precisions", "columns", "budgets"])
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--text", type=Path, default=EWT)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--budget", type=int, default=EncodeConfig.batch_tokens)
    parser.add_argument("--precision", choices=PRECISIONS, action="append")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sentences = speed.tagged_sentences(arguments.text, tokens=arguments.tokens)
    precisions = arguments.precision or (PRECISIONS if arguments.what == "precisions" else PRECISIONS[:1])
    rows = []
    for precision in precisions:
        columns = COLUMN_SETS if arguments.what == "columns" else COLUMN_SETS[:1]
        budgets = (1024, 4096, 8192, 16_384, 32_768) if arguments.what == "budgets" else (arguments.budget,)
        for chosen in columns:
            for budget in budgets:
                rate = measure(sentences, precision=precision, columns=chosen, budget=budget)
                name = ", ".join(chosen or ["all"])
                rows.append(show(f"{precision}, {name}, {budget} tokens", rate, sentences, whole=chosen is None))
                print(*rows[-1], file=sys.stderr, flush=True)
    print(f"{sum(map(len, sentences))} tokens, {arguments.threads} threads")
    header = [
        "what",
        "tokens/s",
        "tokens/processor s",
        "new types",
        "ceilings GFLOP/s",
        "LSTM : ceiling",
        "all : ceiling",
        "by the clock",
    ]
    print(speed.table(header, rows))


if __name__ == "__main__":
    main()
