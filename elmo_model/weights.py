"""Reading and writing models in the original layout: options as JSON, weights as HDF5."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import torch

from elmo_model.bilm import BiLm, build_bilm
from elmo_model.errors import VocabularyError, WeightsError
from elmo_model.model_folder import ModelFiles
from elmo_model.options import ElmoOptions, read_options
from elmo_model.token_encoder import WordTokenEncoder
from elmo_model.vocabulary import Vocabulary
from elmo_model.weight_file import damage_named, find_array, open_weights, read_array
from elmo_model.weight_table import StoredArray, stored_arrays

_TOP_LEVEL = ("char_embed", "embedding", "CNN", "RNN", "RNN_0", "RNN_1")


def read_bilm(model: str | Path | ModelFiles) -> BiLm:
    """The biLM in a folder, or in the given files: float32 on the CPU, in evaluation mode, without gradients.

    Raises:
        OptionsError: If the options can't be used.
        VocabularyError: If the model reads words and its vocabulary is missing or unusable.
        WeightsError: If the weights are missing, cut, damaged, not finite, or don't fit the options.
    """
    source = _Source(model)
    with source.open() as file:
        for array in source.arrays(file):
            find_array(file, array)  # all shapes first: what strange options ask for must not be allocated
        bilm = build_bilm(
            source.options,
            vocabulary=source.vocabulary,
            project_tokens=source.projects_tokens(file),
            project_states=source.projects_states(file),
        )
        parameters = dict(bilm.named_parameters())
        for array in source.arrays(file):
            values = torch.from_numpy(read_array(file, array))
            with torch.no_grad():
                parameters[array.parameter].copy_(array.to_parameter(values))
    return bilm.eval().requires_grad_(False)


def model_digest(model: str | Path | ModelFiles) -> str:
    """A SHA-256, in hex, of all that fixes a model's vectors: its shape, weights, and vocabulary if it reads words.

    Weights count as float32. File names, storage details of the HDF5 file, arrays that aren't used and options that
    don't matter leave it unchanged.

    Raises:
        ElmoModelError: As `read_bilm`.
    """
    source = _Source(model)
    options = source.options.to_mapping()
    if "char_cnn" in options:
        del options["char_cnn"]["n_characters"]
    words = None if source.vocabulary is None else source.vocabulary.words
    digest = hashlib.sha256(json.dumps([options, words], sort_keys=True).encode())
    with source.open() as file:
        for array in source.arrays(file):
            digest.update(f"\n{array.parameter} {array.shape}\n".encode())
            digest.update(read_array(file, array).astype("<f4", copy=False).data)
    return digest.hexdigest()


def write_bilm(
    bilm: BiLm,
    folder: str | Path,
    *,
    dtype: Literal["float32", "float16"] = "float32",
    extra_options: dict[str, Any] | None = None,
) -> ModelFiles:
    """Writes a model as `options.json` and `weights.hdf5` (and `vocab.txt` if it reads words) into a folder.

    Args:
        bilm: The model, with a character encoder or a word table.
        folder: Created if need be; files of the same names are replaced.
        dtype: Of the stored weights.
        extra_options: Further keys for the options file, such as those of the training.

    Returns:
        The files written.

    Raises:
        WeightsError: If a weight isn't finite, or overflows float16.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    encoder = bilm.token_encoder
    vocabulary = encoder.vocabulary if isinstance(encoder, WordTokenEncoder) else None
    files = ModelFiles(
        options=folder / "options.json",
        weights=folder / "weights.hdf5",
        vocabulary=None if vocabulary is None else folder / "vocab.txt",
    )
    parameters = dict(bilm.named_parameters())
    arrays = stored_arrays(
        bilm.options,
        project_tokens="token_encoder.projection.weight" in parameters,
        project_states="forward_layers.0.projection" in parameters,
        n_words=None if vocabulary is None else len(vocabulary),
    )
    unfinished = files.weights.with_name(".weights.hdf5.unfinished")
    with h5py.File(unfinished, "w") as file:
        for array in arrays:
            values = array.to_stored(parameters[array.parameter].detach().cpu()).numpy()
            with np.errstate(over="ignore"):
                stored = values.astype(dtype)
            if not np.isfinite(stored).all():
                raise WeightsError(f"{files.weights}: array {array.names[0]!r} holds values that {dtype} can't hold")
            # Lossless, and a seventh smaller.
            file.create_dataset(array.names[0], data=stored, shuffle=True, compression="gzip")
    os.replace(unfinished, files.weights)
    options = {**(extra_options or {}), **bilm.options.to_mapping()}
    files.options.write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
    if files.vocabulary is not None and vocabulary is not None:
        files.vocabulary.write_bytes("".join(f"{word}\n" for word in vocabulary.words).encode("utf-8"))
    return files


class _Source:
    """The files of a model, its options and vocabulary read."""

    def __init__(self, model: str | Path | ModelFiles) -> None:
        self.files = model if isinstance(model, ModelFiles) else ModelFiles.find(model)
        self.options: ElmoOptions = read_options(self.files.options)
        self.vocabulary: Vocabulary | None = None
        if self.options.char_cnn is None:
            if self.files.vocabulary is None:
                raise VocabularyError(
                    f"{self.files.options}: has no char_cnn, so the model reads words, and a vocabulary file "
                    "is required (vocab.txt beside the options)"
                )
            self.vocabulary = Vocabulary.read(self.files.vocabulary)

    @contextmanager
    def open(self) -> Iterator[h5py.File]:
        with open_weights(self.files.weights) as file:
            with damage_named(self.files.weights):
                self._check_kind(file)
            yield file

    def _check_kind(self, file: h5py.File) -> None:
        names = sorted(file)
        if any(name in _TOP_LEVEL for name in names):
            return
        shown = ", ".join(repr(name) for name in names[:5]) or "nothing"
        if names:
            raise WeightsError(f"{self.files.weights}: this is a feature file, not weights: it holds {shown}")
        raise WeightsError(f"{self.files.weights}: holds no arrays; a weight file holds {', '.join(_TOP_LEVEL)}")

    def arrays(self, file: h5py.File) -> Iterator[StoredArray]:
        return stored_arrays(
            self.options,
            project_tokens=self.projects_tokens(file),
            project_states=self.projects_states(file),
            n_words=None if self.vocabulary is None else len(self.vocabulary),
        )

    def projects_tokens(self, file: h5py.File) -> bool:
        """Whether the token encoder ends in a projection: it may be left out where the widths agree."""
        char_cnn = self.options.char_cnn
        return char_cnn is None or char_cnn.n_filters != self.options.lstm.projection_dim or "CNN_proj" in file

    def projects_states(self, file: h5py.File) -> bool:
        lstm = self.options.lstm
        if lstm.dim != lstm.projection_dim:
            return True
        with_projection = stored_arrays(self.options, project_tokens=False, project_states=True)
        return any(
            name in file for array in with_projection if array.parameter.endswith("projection") for name in array.names
        )
