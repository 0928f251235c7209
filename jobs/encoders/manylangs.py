"""Models of ELMoForManyLangs, shown to the pipeline as encoders."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo_model.columns import columns
from elmo_model.kernels.select import KernelName
from elmo_model.manylangs.lstm_encoder import OUTPUT, LstmExtractor
from elmo_model.manylangs.model import CHARACTERS, EMBEDDER, ENCODER, WORDS, ManyLangsModel
from elmo_model.manylangs.options import ManyLangsOptions, read_options
from jobs.encoders.bilm import BiLmEncoder, as_column, bilm_encoder
from jobs.encoders.devices import available_device, use_threads
from pipeline.config import Precision, check_choice
from pipeline.encoding import EncoderSpec
from pipeline.errors import ConfigError
from pipeline.schema import Column

NUMERICS_VERSION = 1


def is_manylangs(folder: Path) -> bool:
    """Whether a folder holds files that only models of this family have; it may still lack others."""
    return any((folder / name).is_file() for name in (EMBEDDER, ENCODER, WORDS, CHARACTERS))


@dataclass(frozen=True, kw_only=True)
class ManyLangsEncoderFactory:
    """An ELMoForManyLangs model folder, as an encoder.

    Attributes:
        model: The folder.
        kernel: How LSTMs are computed; recorded in receipts.
        threads: Cores that one process computes with; None for all of the machine it is on.
        fold_full_width: Read full-width letters, digits and punctuation as ASCII, which published Chinese models know.
    """

    model: str
    kernel: KernelName = "auto"
    threads: int | None = 1
    fold_full_width: bool = False

    def __post_init__(self) -> None:
        check_choice("kernel", self.kernel, KernelName)

    def describe(self) -> EncoderSpec:
        """The columns by the options and the digest of dictionaries and weights; reads the files, keeps nothing."""
        model = ManyLangsModel.open(self.model)
        return EncoderSpec(
            family="elmo-for-many-langs",
            columns=_columns(model.options),
            model_digest=model.digest(),
            numerics={"version": NUMERICS_VERSION, "kernel": self.kernel, "fold_full_width": self.fold_full_width},
        )

    def check(self, *, device: str, precision: Precision, carried_state: bool) -> None:
        """Refuses a device that cannot be used here, and what the `lstm` encoder does not have."""
        available_device(device)
        if read_options(self.model).encoder == "lstm":
            _check_lstm(precision, carried_state)

    def load(self, *, columns: Sequence[str], device: str, precision: Precision, carried_state: bool) -> BiLmEncoder:
        """The loaded model on the device."""
        use_threads(self.threads)
        model = ManyLangsModel.open(self.model)
        if model.options.encoder == "lstm":
            _check_lstm(precision, carried_state)
            encoder = model.read_lstm_encoder(fold_full_width=self.fold_full_width)
            return BiLmEncoder(LstmExtractor(encoder, device=available_device(device)))
        return bilm_encoder(
            model.read_bilm(fold_full_width=self.fold_full_width),
            columns=columns,
            device=device,
            precision=precision,
            kernel=self.kernel,
            carried_state=carried_state,
        )


def _columns(options: ManyLangsOptions) -> tuple[Column, ...]:
    lstm = options.lstm
    if options.encoder == "lstm":
        return (Column(name=OUTPUT, width=2 * lstm.projection_dim, layer=lstm.n_layers, direction="both"),)
    found = columns(n_layers=lstm.n_layers, width=lstm.projection_dim, directions=("forward", "backward"))
    return tuple(map(as_column, found))


def _check_lstm(precision: Precision, carried_state: bool) -> None:
    if precision != "float32":
        raise ConfigError(f"precision {precision}: a model whose encoder is 'lstm' is computed in float32 only")
    if carried_state:
        raise ConfigError("carried state: a model whose encoder is 'lstm' never had any; leave it out")
