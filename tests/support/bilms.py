"""Small models for tests: the golden ones, and random ones of any shape."""

import json
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo_model.bilm import BiLm, build_bilm
from elmo_model.extractor import Features
from elmo_model.options import ElmoOptions
from elmo_model.vocabulary import Vocabulary
from support.paths import GOLDEN

SEEDED = GOLDEN / "seeded"
SEEDED_MODELS = sorted(path.name for path in SEEDED.iterdir() if path.is_dir())
SENTENCES: list[list[str]] = json.loads((SEEDED / "sentences.json").read_text())
TOLERANCE = 1e-5


def tiny_options(**lstm: Any) -> dict[str, Any]:
    """Options as in an options file, of a two-layer model with a character encoder; arguments replace LSTM options."""
    return {
        "lstm": {
            "dim": 12,
            "projection_dim": 6,
            "n_layers": 2,
            "cell_clip": 3,
            "proj_clip": 3,
            "use_skip_connections": True,
            **lstm,
        },
        "char_cnn": {
            "embedding": {"dim": 4},
            "filters": [[1, 4], [2, 6], [3, 8]],
            "activation": "relu",
            "n_highway": 1,
            "max_characters_per_token": 20,
            "n_characters": 262,
        },
    }


def random_bilm(
    options: dict[str, Any] | None = None, *, seed: int = 0, scale: float = 0.5, words: list[str] | None = None
) -> BiLm:
    """A model with normally distributed weights, large enough that no layer is near linear."""
    parsed = ElmoOptions.from_mapping(tiny_options() if options is None else options)
    bilm = build_bilm(parsed, vocabulary=None if words is None else Vocabulary(words))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.normal_(0.0, scale, generator=generator)
    return bilm.eval().requires_grad_(False)


def stacked(features: Features) -> NDArray[np.float32]:
    """The published array (layers, tokens, 2p) of a batch."""
    columns = features.columns
    n_layers = len(columns) // 2
    pairs = [("token", "token"), *((f"forward_{k}", f"backward_{k}") for k in range(1, n_layers + 1))]
    return np.stack([np.concatenate([columns[a], columns[b]], axis=1) for a, b in pairs])


def by_sentence(array: NDArray[np.float32], sentences: list[list[str]]) -> list[NDArray[np.float32]]:
    """An array (layers, tokens, width) of a batch, cut into its sentences."""
    return np.split(array, np.cumsum([len(sentence) for sentence in sentences])[:-1], axis=1)
