"""The biLM once more, in float64 numpy and one token at a time, written from the file format's description alone.

It shares no code with the package, which only writes the files that `Oracle.of` reads. It is slow and literal, on
purpose.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_model.bilm import BiLm
from elmo_model.weights import write_bilm

Array = NDArray[np.float64]
State = tuple[Array, Array]


class Oracle:
    """A model folder with `options.json` and `weights.hdf5` (and `vocab.txt` for a model that reads words)."""

    def __init__(self, folder: Path) -> None:
        self.options: dict[str, Any] = json.loads((folder / "options.json").read_text())
        self.weights: dict[str, Array] = {}
        with h5py.File(folder / "weights.hdf5") as file:
            file.visititems(self._take)
        self.words = (folder / "vocab.txt").read_text().split() if (folder / "vocab.txt").exists() else []
        self.directions = (0, 1) if self.options.get("bidirectional", True) else (0,)

    @classmethod
    def of(cls, bilm: BiLm) -> "Oracle":
        """The oracle of a model in memory, through the files it is written to."""
        with tempfile.TemporaryDirectory() as folder:
            write_bilm(bilm, folder)
            return cls(Path(folder))

    def _take(self, name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            self.weights[name] = node[()].astype(np.float64)

    def columns(self, sentence: list[str], states: dict[tuple[int, int], State] | None = None) -> dict[str, Array]:
        """Each column (tokens, p) of a sentence; `states`, by layer and direction, are carried and updated if given."""
        vectors = [self.token_vector(token) for token in ["<S>", *sentence, "</S>"]]
        found = {"token": np.array(vectors[1:-1]).reshape(-1, self._width)}
        for direction in self.directions:
            name = ("forward", "backward")[direction]
            rows = vectors[::-1] if direction else vectors
            for layer in range(self.options["lstm"].get("n_layers", 1)):
                rows = self._lstm(rows, layer, direction, {} if states is None else states)
                ordered = rows[::-1] if direction else rows
                found[f"{name}_{layer + 1}"] = np.array(ordered[1:-1]).reshape(-1, self._width)
        return found

    def layers(self, sentence: list[str], states: dict[tuple[int, int], State] | None = None) -> Array:
        """The published array (layers, tokens, 2p), the token vector twice in layer 0."""
        columns = self.columns(sentence, states)
        pairs = [("token", "token")]
        pairs += [(f"forward_{k}", f"backward_{k}") for k in range(1, self.options["lstm"].get("n_layers", 1) + 1)]
        return np.array([np.concatenate([columns[a], columns[b]], axis=1) for a, b in pairs])

    def token_vector(self, token: str) -> Array:
        if "char_cnn" not in self.options:
            row = self.words.index(token if token in self.words else "<UNK>")
            return np.asarray(self.weights["embedding"][row])
        cnn = self.options["char_cnn"]
        characters = np.array([self.weights["char_embed"][k - 1] for k in self.character_ids(token)])
        banks = []
        for number, (width, _) in enumerate(cnn["filters"]):
            kernel, bias = self.weights[f"CNN/W_cnn_{number}"][0], self.weights[f"CNN/b_cnn_{number}"]
            sums = [
                sum(characters[t + k] @ kernel[k] for k in range(width)) + bias
                for t in range(len(characters) - width + 1)
            ]
            largest = np.max(sums, axis=0)
            banks.append(np.maximum(largest, 0) if cnn["activation"] == "relu" else np.tanh(largest))
        x = np.concatenate(banks)
        for number in range(cnn.get("n_highway", 0)):
            w = {
                key: self.weights[f"CNN_high_{number}/{key}"]
                for key in ("W_carry", "b_carry", "W_transform", "b_transform")
            }
            gate = sigmoid(x @ w["W_carry"] + w["b_carry"])
            x = gate * np.maximum(x @ w["W_transform"] + w["b_transform"], 0) + (1 - gate) * x
        if "CNN_proj/W_proj" in self.weights:
            x = x @ self.weights["CNN_proj/W_proj"] + self.weights["CNN_proj/b_proj"]
        return np.asarray(x, dtype=np.float64)

    def character_ids(self, token: str) -> list[int]:
        length = self.options["char_cnn"]["max_characters_per_token"]
        body = list(token.encode("utf-8", errors="ignore")[: length - 2])
        body = {"<S>": [256], "</S>": [257]}.get(token, body)
        row = [258, *body, 259]
        return [k + 1 for k in row + [260] * (length - len(row))]

    @property
    def _width(self) -> int:
        return int(self.options["lstm"]["projection_dim"])

    def _lstm(self, rows: list[Array], layer: int, direction: int, states: dict[tuple[int, int], State]) -> list[Array]:
        options = self.options["lstm"]
        scope = f"RNN_{direction}/" if len(self.directions) == 2 else ""
        group = f"{scope}RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        if f"{group}/W_0" not in self.weights:
            group = f"{scope}RNN/LSTMCell"
        cell_clip, proj_clip = (options.get(key) or np.inf for key in ("cell_clip", "proj_clip"))
        s, h = states.get((layer, direction), (np.zeros(options["dim"]), np.zeros(self._width)))
        outputs = []
        for x in rows:
            z = np.concatenate([x, h]) @ self.weights[f"{group}/W_0"] + self.weights[f"{group}/B"]
            i, j, f, o = np.split(z, 4)
            s = np.clip(sigmoid(f + 1) * s + sigmoid(i) * np.tanh(j), -cell_clip, cell_clip)
            h = sigmoid(o) * np.tanh(s)
            if f"{group}/W_P_0" in self.weights:
                h = np.clip(h @ self.weights[f"{group}/W_P_0"], -proj_clip, proj_clip)
            outputs.append(h + x if layer and options.get("use_skip_connections") else h)
        states[layer, direction] = s, h
        return outputs


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))
