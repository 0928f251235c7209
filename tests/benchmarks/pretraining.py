"""Speed of training a model of the `mini` size, against a plain way of doing it, in one run.

    python tests/benchmarks/pretraining.py [--threads 2] [--rounds 5]

The plain way is what torch gives at once: torch.nn.LSTM with a projection under bfloat16 autocast, distinct words
encoded once, sampled softmax as two products and a cross-entropy, one backward pass, Adam. It has no clips. Both take
turns on random text with a word frequency like that of prose, so that other load on the machine falls on both; the best
round of each counts.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo_model.bilm import build_bilm
from elmo_model.pretraining.config import preset_path, read_training_config
from elmo_model.pretraining.initialization import new_model
from elmo_model.pretraining.language_model import window_tensors
from elmo_model.pretraining.memory import keep_freed_memory
from elmo_model.pretraining.trainer import Trainer
from elmo_model.token_encoder import TokenEncoder
from elmo_model.vocabulary import MARKS, Vocabulary

WORDS = 40_000


def make_vocabulary() -> Vocabulary:
    """Words of 1 to 12 letters, the short ones first."""
    generator = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfw"))
    words: dict[str, None] = dict.fromkeys(MARKS)
    while len(words) < WORDS:
        length = min(12, 2 + len(words) // 4_000 + int(generator.integers(3)))
        words["".join(generator.choice(letters, length))] = None
    return Vocabulary(words)


def prose(vocabulary: Vocabulary) -> Callable[[int], Iterator[Sequence[str]]]:
    """Sentences of 23 words, drawn with log-uniform frequency."""
    words = np.array(vocabulary.words[len(MARKS) :])

    def epoch(number: int) -> Iterator[Sequence[str]]:
        generator = np.random.default_rng(number)
        for _ in range(2_000):
            ranks = np.exp(generator.random(23) * np.log(len(words))).astype(int) - 1
            yield words[ranks].tolist()

    return epoch


class PlainModel(nn.Module):
    """The same sizes from torch's own parts."""

    def __init__(self, encoder: TokenEncoder, *, cells: int, width: int, layers: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.stacks = nn.ModuleList(nn.LSTM(width, cells, layers, proj_size=width) for _ in range(2))
        self.weight = nn.Parameter(torch.randn(WORDS, width) / width**0.5)
        self.bias = nn.Parameter(torch.zeros(WORDS))

    def forward(
        self, ids: Tensor, types: Sequence[Tensor], targets: Sequence[Tensor], candidates: Tensor, batch: int
    ) -> Tensor:
        """Mean sampled loss."""
        vectors = self.encoder(ids)
        losses = []
        for stack, own_types, own_targets in zip(self.stacks, types, targets, strict=True):
            rows = F.embedding(own_types, vectors).view(-1, batch, vectors.shape[1])
            top = stack(rows)[0].flatten(0, 1)
            true = (top * self.weight[own_targets]).sum(dim=1, keepdim=True) + self.bias[own_targets, None]
            logits = torch.cat([true, F.linear(top, self.weight[candidates], self.bias[candidates])], dim=1)
            losses.append(F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64)))
        return torch.stack(losses).mean()


def plain_step(trainer: Trainer) -> Callable[[], None]:
    """A step of the plain way on the trainer's data."""
    shape, _ = read_training_config(preset_path("mini"))
    encoder = build_bilm(shape).token_encoder
    encoder.reset_parameters(torch.Generator().manual_seed(0))  # type: ignore[operator]
    lstm = shape.lstm
    model = PlainModel(encoder, cells=lstm.dim, width=lstm.projection_dim, layers=lstm.n_layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)

    def step() -> None:
        windows = [stream.next_window() for stream in trainer.streams]
        tensors = window_tensors(windows, encoder=encoder, vocabulary=trainer.vocabulary)
        candidates = torch.from_numpy(trainer.samplers[0].draw().ids)
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(tensors.token_ids, tensors.types, tensors.targets, candidates, tensors.batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()

    return step


def seconds(step: Callable[[], object]) -> float:
    """How long one step takes."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    """Prints tokens a second of both ways, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    vocabulary = make_vocabulary()
    shape, options = read_training_config(preset_path("mini"))
    model = new_model(shape, vocabulary, seed=0)
    model.product_dtype = torch.bfloat16 if arguments.precision == "bfloat16" else torch.float32
    trainer = Trainer(model, vocabulary=vocabulary, options=options, sentences=prose(vocabulary), seed=0)
    plain = plain_step(trainer)
    tokens = options.batch_size * options.unroll_steps

    plain()
    rounds_plain = [seconds(plain)]
    keep_freed_memory()
    trainer.step(progress=0.0)
    rounds_ours = []
    for _ in range(arguments.rounds):
        rounds_ours.append(seconds(lambda: trainer.step(progress=0.0)))
        rounds_plain.append(seconds(plain))
    ours, theirs = tokens / min(rounds_ours), tokens / min(rounds_plain)
    print(f"{arguments.threads} threads, {tokens} tokens a step, {arguments.precision} products")
    print(f"plain torch     {theirs:7,.0f} tokens/s")
    print(f"this trainer    {ours:7,.0f} tokens/s, {ours / theirs:.2f} times as fast")


if __name__ == "__main__":
    main()
