"""Token vectors of a closed vocabulary in a file, to be used in place of the character CNN.

The layout is that of bilm-tf's `dump_token_embeddings`: an HDF5 file with one dataset `embedding` (words, p), float32,
whose row k is the vector of the word with id k in the vocabulary.
"""

import hashlib
import json
import os
from pathlib import Path

import h5py
import torch

from elmo_model.bilm import BiLm
from elmo_model.columns import TOKEN
from elmo_model.errors import WeightsError
from elmo_model.extractor import Extractor
from elmo_model.token_encoder import WordTokenEncoder
from elmo_model.vocabulary import Vocabulary
from elmo_model.weight_file import open_weights, read_array
from elmo_model.weight_table import word_array

# Words a slice; a vocabulary of published size (800,000 words) would fill gigabytes at once.
_SLICE = 4096


def write_token_table(bilm: BiLm, vocabulary: Vocabulary, path: str | Path, *, device: str = "cpu") -> None:
    """Writes the vector that a model gives to each word of the vocabulary; an existing file is replaced.

    Args:
        bilm: The model.
        vocabulary: The words.
        path: The file.
        device: Where to compute.

    Raises:
        DeviceError: If the device isn't available.
    """
    path = Path(path)
    extractor = Extractor(bilm, columns=[TOKEN], device=device, cached_types=1)
    unfinished = path.with_name(f".{path.name}.unfinished")
    with h5py.File(unfinished, "w") as file:
        table = file.create_dataset("embedding", shape=(len(vocabulary), bilm.lstm.projection_dim), dtype="float32")
        for start in range(0, len(vocabulary), _SLICE):
            words = vocabulary.words[start : start + _SLICE]
            table[start : start + len(words)] = extractor.encode([words]).columns[TOKEN]
    os.replace(unfinished, path)


def read_token_table(path: str | Path, vocabulary: Vocabulary, *, width: int) -> WordTokenEncoder:
    """A token encoder that looks words up; other words share the vector of `<UNK>`, and are counted.

    To use it with a model: `bilm.token_encoder = read_token_table(path, vocabulary, width=bilm.lstm.projection_dim)`.
    For words of the vocabulary the features then are those of the model itself, bit for bit.

    Args:
        path: The file.
        vocabulary: The words it was written for.
        width: Width of a token vector (p) in the model.

    Raises:
        WeightsError: If the file can't be read, is damaged, or isn't a table for this vocabulary and width.
    """
    path = Path(path)
    with open_weights(path) as file:
        try:
            vectors = read_array(file, word_array(len(vocabulary), width))
        except WeightsError as error:
            raise WeightsError(
                f"{error} (a table holds a row for each of the vocabulary's {len(vocabulary)} words, of the model's "
                f"width {width})"
            ) from None
    encoder = WordTokenEncoder(vocabulary, width=width)
    with torch.no_grad():
        encoder.embedding.copy_(torch.from_numpy(vectors))
    return encoder


def digest_with_table(model_digest: str, table: WordTokenEncoder) -> str:
    """A SHA-256, in hex, of all that fixes the vectors of a model with this table in place of its token encoder."""
    digest = hashlib.sha256(json.dumps([model_digest, table.vocabulary.words]).encode())
    digest.update(table.embedding.detach().numpy().astype("<f4", copy=False).tobytes())
    return digest.hexdigest()
