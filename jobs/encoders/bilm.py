"""The biLM of the original ELMo, shown to the pipeline as an encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from elmo_model.bilm import BiLm
from elmo_model.columns import ModelColumn, model_columns
from elmo_model.errors import DeviceError
from elmo_model.extractor import Extractor
from elmo_model.kernels.select import KernelName
from elmo_model.manylangs.lstm_encoder import LstmExtractor
from elmo_model.model_folder import ModelFiles
from elmo_model.options import read_options
from elmo_model.token_encoder import WordTokenEncoder
from elmo_model.token_table import digest_with_table, read_token_table
from elmo_model.vocabulary import Vocabulary
from elmo_model.weights import model_digest, read_bilm
from jobs.encoders.devices import available_device, translated_errors, use_threads
from jobs.memory import give_back_freed_memory, give_back_library_code
from pipeline.config import Precision, check_choice
from pipeline.encoding import Encoded, EncoderSpec
from pipeline.errors import ConfigError
from pipeline.schema import Column, Direction

NUMERICS_VERSION = 1

_DIRECTIONS: dict[str | None, Direction] = {None: "none", "forward": "forward", "backward": "backward"}


def is_bilm(folder: Path) -> bool:
    """Whether a folder holds files that only models of this family have; it may still lack others."""
    patterns = ("*options*.json", "*weights*.hdf5", "*weights*.h5")
    return any(path.is_file() for pattern in patterns for path in folder.glob(pattern))


@dataclass(frozen=True, kw_only=True)
class BiLmEncoderFactory:
    """A model folder in the original layout, as an encoder.

    Attributes:
        model: The folder.
        kernel: How LSTMs are computed; recorded in receipts.
        threads: Cores that one process computes with; None for all of the machine it is on.
        token_table: A file of token vectors, used in place of the character CNN.
        vocabulary: The words of the token table; None for the vocabulary in the folder.
    """

    model: str
    kernel: KernelName = "auto"
    threads: int | None = 1
    token_table: str | None = None
    vocabulary: str | None = None

    def __post_init__(self) -> None:
        check_choice("kernel", self.kernel, KernelName)
        if self.vocabulary is not None and self.token_table is None:
            raise ConfigError(f"vocabulary {self.vocabulary}: is that of a token table, and none is given")

    def describe(self) -> EncoderSpec:
        """The columns by the options and the digest of the weights; reads the files once, keeps nothing."""
        files = ModelFiles.find(self.model)
        options, digest = read_options(files.options), model_digest(files)
        if self.token_table is not None:
            table = self._read_table(files, width=options.lstm.projection_dim)
            digest = digest_with_table(digest, table)
        return EncoderSpec(
            family="elmo",
            columns=tuple(map(as_column, model_columns(options))),
            model_digest=digest,
            numerics={"version": NUMERICS_VERSION, "kernel": self.kernel},
        )

    def check(self, *, device: str, precision: Precision, carried_state: bool) -> None:
        """Refuses a device that cannot be used here."""
        available_device(device)

    def load(self, *, columns: Sequence[str], device: str, precision: Precision, carried_state: bool) -> "BiLmEncoder":
        """The loaded model on the device."""
        use_threads(self.threads)
        files = ModelFiles.find(self.model)
        bilm = read_bilm(files)
        if self.token_table is not None:
            bilm.token_encoder = self._read_table(files, width=bilm.lstm.projection_dim)
        encoder = bilm_encoder(
            bilm, columns=columns, device=device, precision=precision, kernel=self.kernel, carried_state=carried_state
        )
        give_back_library_code()
        return encoder

    def _read_table(self, files: ModelFiles, *, width: int) -> WordTokenEncoder:
        vocabulary = self.vocabulary or files.vocabulary
        if self.token_table is None or vocabulary is None:
            raise ConfigError(f"token table {self.token_table}: its vocabulary is neither given nor in {self.model}")
        return read_token_table(self.token_table, Vocabulary.read(vocabulary), width=width)


def bilm_encoder(
    bilm: BiLm, *, columns: Sequence[str], device: str, precision: Precision, kernel: KernelName, carried_state: bool
) -> "BiLmEncoder":
    """The encoder that computes with a biLM, whose weights it takes over.

    Raises:
        ConfigError: The device or precision cannot be had here.
    """
    try:
        extractor = Extractor(
            bilm,
            columns=columns,
            device=available_device(device),
            precision=precision,
            kernel=kernel,
            carried_state=carried_state,
            consume=True,
        )
    except DeviceError as error:
        raise ConfigError(str(error)) from None
    return BiLmEncoder(extractor)


def as_column(column: ModelColumn) -> Column:
    """A column of the model package as one of the pipeline."""
    return Column(name=column.name, width=column.width, layer=column.layer, direction=_DIRECTIONS[column.direction])


class BiLmEncoder:
    """An extractor of the model package with the errors and names of the pipeline."""

    def __init__(self, extractor: Extractor | LstmExtractor) -> None:
        self._extractor = extractor

    @property
    def runtime(self) -> Mapping[str, str]:
        """Device, kernel and why, threads, torch version."""
        return {
            "device": str(self._extractor.device),
            "kernel": self._extractor.kernel,
            "threads": str(torch.get_num_threads()),
            "torch": version("torch"),
        }

    def encode(self, sentences: Sequence[Sequence[str]]) -> Encoded:
        """The features of the sentences, in the order given."""
        give_back_freed_memory()  # of the batch before, which has been written by now
        with translated_errors():
            features = self._extractor.encode(sentences)
        return Encoded(columns=features.columns, counts=features.counts)
