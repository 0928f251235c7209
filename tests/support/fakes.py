"""A small encoder without a model, which can also misbehave on purpose."""

import hashlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.config import Precision
from pipeline.encoding import Encoded, EncoderSpec
from pipeline.errors import ConfigError, DeviceLostError, EncoderOutOfMemoryError
from pipeline.schema import Column

WIDTH = 3
COLUMNS = (
    Column(name="token", width=WIDTH, layer=0, direction="none"),
    Column(name="forward_1", width=WIDTH, layer=1, direction="forward"),
    Column(name="backward_1", width=WIDTH, layer=1, direction="backward"),
)


def fake_vector(column: str, tokens: Sequence[str], position: int) -> np.ndarray:
    """The vector of one token: any change of column, sentence or position changes it."""
    key = "\0".join([column, str(position), *([tokens[position]] if column == "token" else tokens)])
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return np.frombuffer(digest[: WIDTH * 2], dtype="<u2").astype(np.float32) / 65536


class FakeEncoder:
    """Vectors from hashes. The tokens BOOM, HUGE, NAN and GONE fail, overflow float16, are not numbers, break it.

    With a `kill_marker`, KILL kills the process and GONE breaks the device, once in all processes.
    """

    def __init__(
        self,
        columns: Sequence[str],
        most_sentences: int | None = None,
        *,
        seconds: float = 0.0,
        kill_marker: str | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.most_sentences = most_sentences
        self.seconds = seconds
        self.kill_marker = kill_marker
        self.batches: list[list[int]] = []

    @property
    def runtime(self) -> Mapping[str, str]:
        return {"device": "cpu", "kernel": "fake"}

    def encode(self, sentences: Sequence[Sequence[str]]) -> Encoded:
        if self.most_sentences is not None and len(sentences) > self.most_sentences:
            raise EncoderOutOfMemoryError(f"{len(sentences)} sentences do not fit")
        tokens = {token for sentence in sentences for token in sentence}
        time.sleep(self.seconds)
        if "KILL" in tokens and self.kill_marker is not None and self._first("KILL"):
            os.kill(os.getpid(), signal.SIGKILL)
        if "GONE" in tokens and (self.kill_marker is None or self._first("GONE")):
            raise DeviceLostError("the device is gone")
        if "BOOM" in tokens:
            raise RuntimeError("boom")
        self.batches.append([len(sentence) for sentence in sentences])
        columns = {}
        for column in self.columns:
            rows = [fake_vector(column, s, position) for s in sentences for position in range(len(s))]
            columns[column] = np.array(rows, dtype=np.float32).reshape(-1, WIDTH)
        flat = [token for sentence in sentences for token in sentence]
        for row, token in enumerate(flat):
            if token in ("HUGE", "NAN"):
                columns[self.columns[-1]][row, 0] = 70000.0 if token == "HUGE" else np.nan
        return Encoded(columns=columns, counts={"long_tokens": sum(len(token) > 10 for token in flat)})

    def _first(self, token: str) -> bool:
        try:
            Path(f"{self.kill_marker}-{token}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class FakeEncoderFactory:
    """Describes and makes a `FakeEncoder`.

    Attributes:
        seed: Part of the digest, so that two factories can differ.
        most_sentences: A larger batch runs out of memory.
        load_log: A file that gets a line for each load, in whichever process.
        seconds: Each batch takes as long.
        kill_marker: The start of the names of files made when KILL or GONE has happened, which then happens no more.
    """

    seed: int = 0
    most_sentences: int | None = None
    load_log: str | None = None
    seconds: float = 0.0
    kill_marker: str | None = None

    def describe(self) -> EncoderSpec:
        return EncoderSpec(family="fake", columns=COLUMNS, model_digest=f"fake{self.seed}")

    def check(self, *, device: str, precision: Precision, carried_state: bool) -> None:
        if device == "cuda":
            raise ConfigError("the fake has no cuda")

    def load(self, *, columns: Sequence[str], device: str, precision: Precision, carried_state: bool) -> FakeEncoder:
        if self.load_log is not None:
            with open(self.load_log, "a", encoding="utf-8") as log:
                log.write("loaded\n")
        return FakeEncoder(columns, self.most_sentences, seconds=self.seconds, kill_marker=self.kill_marker)
