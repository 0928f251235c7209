"""Static word vectors, shown to the pipeline as an encoder: one vector a word, whatever stands around it."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jobs.encoders.vector_files import WordVectors, inspect_file, read_vectors
from pipeline.config import Precision
from pipeline.encoding import Encoded, EncoderSpec
from pipeline.errors import ConfigError
from pipeline.schema import Column

NUMERICS_VERSION = 1
COLUMN = "token"


def is_static_vectors(path: Path) -> bool:
    """Whether a model is of this family: it is a file, where all others are folders."""
    return path.is_file()


@dataclass(frozen=True, kw_only=True)
class StaticVectorsEncoderFactory:
    """A file of word vectors, as an encoder.

    Attributes:
        model: The file: word2vec text or binary, GloVe text, fastText `.vec` or `.bin`.
        lowercase: Look tokens up in lower case, for vectors made from lower-cased text.
    """

    model: str
    lowercase: bool = False

    def describe(self) -> EncoderSpec:
        """The one column `token` and the digest of the file."""
        file = inspect_file(Path(self.model))
        with open(file.path, "rb") as raw:
            digest = hashlib.file_digest(raw, "sha256").hexdigest()
        return EncoderSpec(
            family="static-vectors",
            columns=(Column(name=COLUMN, width=file.width, layer=0, direction="none"),),
            model_digest=digest,
            numerics={"version": NUMERICS_VERSION, "lowercase": self.lowercase},
        )

    def check(self, *, device: str, precision: Precision, carried_state: bool) -> None:
        """Refuses what a look-up does not have."""
        if device == "cuda":
            raise ConfigError("device cuda: word vectors are looked up on the CPU; use --device cpu or auto")
        if precision != "float32":
            raise ConfigError(f"precision {precision}: word vectors are float32; --dtype float16 stores them as such")
        if carried_state:
            raise ConfigError("carried state: word vectors have no state; leave it out")

    def load(
        self, *, columns: Sequence[str], device: str, precision: Precision, carried_state: bool
    ) -> "StaticVectorsEncoder":
        """The vectors in memory."""
        self.check(device=device, precision=precision, carried_state=carried_state)
        return StaticVectorsEncoder(read_vectors(inspect_file(Path(self.model))), lowercase=self.lowercase)


class StaticVectorsEncoder:
    """A look-up of word vectors.

    A word that is not listed gets the zero vector and counts as `unknown_words`; in a fastText model with subwords it
    gets the mean of their vectors and counts as `composed_words`.
    """

    def __init__(self, vectors: WordVectors, *, lowercase: bool) -> None:
        self._vectors = vectors
        self._lowercase = lowercase
        self._composed = lru_cache(maxsize=65536)(self._compose)

    @property
    def runtime(self) -> Mapping[str, str]:
        """The device, and the version of numpy."""
        return {"device": "cpu", "numpy": version("numpy")}

    def encode(self, sentences: Sequence[Sequence[str]]) -> Encoded:
        """The vectors of all tokens, under `token`."""
        tokens = [token for sentence in sentences for token in sentence]
        vectors = np.zeros((len(tokens), self._vectors.matrix.shape[1]), dtype=np.float32)
        counts: Counter[str] = Counter()
        for place, token in enumerate(tokens):
            word = token.lower() if self._lowercase else token
            row = self._vectors.rows.get(word)
            if row is not None:
                vectors[place] = self._vectors.matrix[row]
                continue
            composed = self._composed(word)
            counts["unknown_words" if composed is None else "composed_words"] += 1
            if composed is not None:
                vectors[place] = composed
        return Encoded(columns={COLUMN: vectors}, counts=dict(counts))

    def _compose(self, word: str) -> NDArray[np.float32] | None:
        vector = self._vectors.compose(word) if self._vectors.compose is not None else None
        # A word too short to have parts has the zero vector in fastText as well.
        return vector if vector is not None and vector.any() else None
