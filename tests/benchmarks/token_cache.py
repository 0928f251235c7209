"""How often the token vector of a word is at hand, and what that saves, on real text.

    python tests/benchmarks/token_cache.py [--tokens 1000000] [--text FILE.gz ...]

Hits are counted over batches of consecutive lines; the time saved follows from the time of computing a vector with the
full-size model, measured in the same run.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.extractor import Extractor
from elmo_model.token_cache import TokenVectors
from elmo_model.token_encoder import WordTokenEncoder
from elmo_model.vocabulary import MARKS, Vocabulary
from support import speed

TEXTS = Path(__file__).resolve().parents[3] / "shared/data/english-text"
CAPACITIES = (0, 4096, 16_384, 32_768, 65_536)
BATCH_TOKENS = 16_384
SAMPLE_TYPES = 1024


def counting(ids: NDArray[np.int32]) -> Tensor:
    """Stands in for the token encoder where only the look-ups count."""
    return torch.zeros(len(ids), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--text", type=Path, nargs="*", default=sorted(TEXTS.glob("train-*.txt.gz")))
    arguments = parser.parse_args()
    sentences = speed.text_sentences(arguments.text, tokens=arguments.tokens)
    tokens = sum(map(len, sentences))
    sample = list(dict.fromkeys(token for sentence in sentences[:4000] for token in sentence))[:SAMPLE_TYPES]
    encoder = Extractor(speed.full_size_bilm(), columns=["token"], threads=1)
    started = time.process_time()
    encoder.token_vectors.of(sample)
    per_type = (time.process_time() - started) / len(sample)
    words = WordTokenEncoder(Vocabulary(MARKS), width=1)
    rows = []
    for capacity in CAPACITIES:
        cache = TokenVectors(words, counting, capacity=capacity, device=torch.device("cpu"))
        batch: set[str] = set()
        size = 0
        for sentence in sentences:
            batch.update(sentence)
            size += len(sentence)
            if size >= BATCH_TOKENS:
                cache.of(list(batch))
                batch, size = set(), 0
        cache.of(list(batch))
        saved = (tokens - cache.misses) * per_type
        rows.append([capacity, cache.misses, f"{1 - cache.misses / tokens:.1%}", f"{saved:.0f} s"])
    print(f"{tokens} tokens in batches of {BATCH_TOKENS}; {per_type * 1e3:.2f} ms of one processor for a vector")
    print(speed.table(["types kept", "vectors computed", "tokens without", "saved to computing every token"], rows))


if __name__ == "__main__":
    main()
