"""ELMoForManyLangs model folders: opened, checked, read into our modules, digested."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmo_model.bilm import BiLm
from elmo_model.errors import WeightsError
from elmo_model.manylangs.checkpoint import read_tensors
from elmo_model.manylangs.dictionaries import Dictionary
from elmo_model.manylangs.lstm_encoder import LstmEncoder
from elmo_model.manylangs.options import ManyLangsOptions, read_options
from elmo_model.manylangs.tensor_table import (
    CHAR_EMBED,
    WORD_EMBED,
    embedder_shapes,
    embedder_state,
    encoder_shapes,
    lstm_state,
    stacks_state,
)
from elmo_model.manylangs.token_encoder import ManyLangsTokenEncoder

WORDS, CHARACTERS = "word.dic", "char.dic"
EMBEDDER, ENCODER = "token_embedder.pkl", "encoder.pkl"


@dataclass(frozen=True, kw_only=True)
class ManyLangsModel:
    """A model folder with its options and dictionaries read, and its weights not yet.

    Attributes:
        folder: The folder.
        options: Sizes.
        words: The word dictionary, if the model reads words.
        characters: The character dictionary, if the model reads characters.
    """

    folder: Path
    options: ManyLangsOptions
    words: Dictionary | None
    characters: Dictionary | None

    @classmethod
    def open(cls, folder: str | Path) -> "ManyLangsModel":
        """The model in a folder.

        Raises:
            OptionsError: If `config.json` or the network config can't be used.
            VocabularyError: If a dictionary that the model reads is missing or can't be used.
        """
        folder = Path(folder)
        options = read_options(folder)
        return cls(
            folder=folder,
            options=options,
            words=Dictionary.read_words(folder / WORDS) if options.embedder.word_dim else None,
            characters=Dictionary.read_characters(folder / CHARACTERS) if options.embedder.char_dim else None,
        )

    def read_bilm(self, *, fold_full_width: bool = False) -> BiLm:
        """The model as a biLM: float32 on the CPU, in evaluation mode, without gradients.

        Raises:
            WeightsError: If the weights are missing, damaged, not finite, or don't fit config and dictionaries; or if
                the encoder is `lstm`, which is no biLM.
        """
        if self.options.encoder != "elmo":
            raise WeightsError(
                f"{self.folder}: encoder.name is {self.options.encoder!r}: one bidirectional LSTM whose directions "
                "read each other, with one output; it can't be read as a biLM"
            )
        # The shapes are checked before anything of the sizes that the config claims is made.
        state = embedder_state(self._tensors(EMBEDDER))
        state |= stacks_state(self._tensors(ENCODER), n_layers=self.options.lstm.n_layers)
        bilm = BiLm(self._token_encoder(fold_full_width), lstm=self.options.lstm, project_states=True, forget_bias=0.0)
        bilm.load_state_dict(state)
        return bilm.eval().requires_grad_(False)

    def read_lstm_encoder(self, *, fold_full_width: bool = False) -> LstmEncoder:
        """The model whose encoder is `lstm`: float32 on the CPU, in evaluation mode, without gradients.

        Raises:
            WeightsError: As `read_bilm`, or if the encoder isn't `lstm`.
        """
        if self.options.encoder != "lstm":
            raise WeightsError(f"{self.folder}: encoder.name is {self.options.encoder!r}, not 'lstm'")
        state = embedder_state(self._tensors(EMBEDDER)) | lstm_state(self._tensors(ENCODER))
        model = LstmEncoder(self._token_encoder(fold_full_width), lstm=self.options.lstm)
        model.load_state_dict(state)
        return model.eval().requires_grad_(False)

    def digest(self) -> str:
        """A SHA-256, in hex, of all that fixes the model's vectors: sizes, dictionaries and weights as float32.

        File formats, file names and settings that don't matter leave it unchanged.

        Raises:
            WeightsError: If the weights are missing, damaged, not finite, or don't fit config and dictionaries.
        """
        entries = [None if dictionary is None else dictionary.ids for dictionary in (self.words, self.characters)]
        digest = hashlib.sha256(json.dumps([asdict(self.options), *entries], sort_keys=True).encode())
        for file in (EMBEDDER, ENCODER):
            for name, tensor in sorted(self._tensors(file).items()):
                digest.update(f"\n{file} {name} {tuple(tensor.shape)}\n".encode())
                digest.update(np.ascontiguousarray(tensor.numpy(), dtype="<f4").data)
        return digest.hexdigest()

    def _token_encoder(self, fold_full_width: bool) -> ManyLangsTokenEncoder:
        return ManyLangsTokenEncoder(
            self.options.embedder,
            words=self.words,
            characters=self.characters,
            width=self.options.lstm.projection_dim,
            fold_full_width=fold_full_width,
        )

    def _tensors(self, file: str) -> dict[str, Tensor]:
        """The tensors of one of the two pickles, which hold what config and dictionaries call for and nothing else."""
        path = self.folder / file
        tensors = read_tensors(path)
        if file == EMBEDDER:
            self._check_rows(WORD_EMBED, tensors, self.words, WORDS, "words")
            self._check_rows(CHAR_EMBED, tensors, self.characters, CHARACTERS, "characters")
            shapes = embedder_shapes(
                self.options,
                n_words=None if self.words is None else len(self.words),
                n_characters=None if self.characters is None else len(self.characters),
            )
        else:
            shapes = encoder_shapes(self.options)
        found = {}
        for name, shape in shapes:
            if name not in tensors:
                raise WeightsError(f"{path}: tensor {name!r} is missing; by the network config it has shape {shape}")
            if tuple(tensors[name].shape) != shape:
                raise WeightsError(
                    f"{path}: tensor {name!r} has shape {tuple(tensors[name].shape)}, but by the network config "
                    f"{shape}; config and weights belong to different models"
                )
            if not torch.isfinite(tensors[name]).all():
                raise WeightsError(f"{path}: tensor {name!r} holds values that aren't finite")
            found[name] = tensors[name].float()
        surplus = sorted(tensors.keys() - found.keys())
        if surplus:
            raise WeightsError(
                f"{path}: holds {len(surplus)} tensors that have no place in the model that the network config "
                f"describes, such as {surplus[0]!r}; config and weights belong to different models"
            )
        return found

    def _check_rows(
        self, name: str, tensors: Mapping[str, Tensor], dictionary: Dictionary | None, file: str, what: str
    ) -> None:
        if dictionary is None or name not in tensors or tensors[name].dim() != 2:
            return
        rows = len(tensors[name])
        if rows != len(dictionary):
            raise WeightsError(
                f"{self.folder / file} lists {len(dictionary)} {what}, but {EMBEDDER} has vectors for {rows}: the "
                "dictionaries belong to another release of the model; take all files from one archive"
            )
