"""Which family a model is of, told from its files."""

from functools import partial
from pathlib import Path

from elmo_model.kernels.select import KernelName
from elmo_model.shipped import model_folder
from jobs.encoders.bilm import BiLmEncoderFactory, is_bilm
from jobs.encoders.located import LocatedEncoderFactory
from jobs.encoders.manylangs import ManyLangsEncoderFactory, is_manylangs
from jobs.encoders.static_vectors import StaticVectorsEncoderFactory, is_static_vectors
from jobs.encoders.transformer import PiecePooling, TransformerEncoderFactory, is_transformer
from pipeline.encoding import EncoderFactory
from pipeline.errors import ConfigError

ELMO = "ELMo (*options*.json and *weights*.hdf5)"
MANYLANGS = "ELMoForManyLangs (config.json, *.dic, token_embedder.pkl and encoder.pkl)"
TRANSFORMER = "a transformer (config.json and *.safetensors)"
STATIC = "word vectors (one file)"


def encoder_factory(
    model: str,
    *,
    kernel: KernelName,
    threads: int | None,
    fold_full_width: bool = False,
    lowercase: bool = False,
    pieces: PiecePooling | None = None,
    token_table: str | None = None,
    vocabulary: str | None = None,
) -> EncoderFactory:
    """The encoder for a model.

    Args:
        model: A shipped model's name, a folder of an ELMo, ELMoForManyLangs or transformer model, or a file of
            word vectors; folder and file also by URL.
        kernel: How LSTMs are computed.
        threads: Cores that one process computes with; None for all of the machine it is on.
        fold_full_width: For ELMoForManyLangs: read full-width forms as ASCII.
        lowercase: For word vectors: look tokens up in lower case.
        pieces: For transformers: how the pieces of a word become its vector; their mean by default.
        token_table: For ELMo: a file of token vectors, used in place of the character CNN.
        vocabulary: The words of the token table; by default the vocabulary in the folder.

    Raises:
        ConfigError: There is no such model, it is of no known family or of several, or an option is given that its
            family does not have.
    """
    if "://" in model or model_folder(model) != Path(model):
        build = partial(
            encoder_factory,
            kernel=kernel,
            threads=threads,
            fold_full_width=fold_full_width,
            lowercase=lowercase,
            pieces=pieces,
            token_table=token_table,
            vocabulary=vocabulary,
        )
        return LocatedEncoderFactory(model=model, build=build)
    family = detect_family(Path(model))
    given = {
        "kernel": (kernel != "auto", (ELMO, MANYLANGS)),
        "fold full width": (fold_full_width, (MANYLANGS,)),
        "lowercase": (lowercase, (STATIC,)),
        "pieces": (pieces is not None, (TRANSFORMER,)),
        "token table": (token_table is not None, (ELMO,)),
        "vocabulary": (vocabulary is not None, (ELMO,)),
    }
    for option, (is_given, families) in given.items():
        if is_given and family not in families:
            raise ConfigError(f"{option}: {model} is {family}; the option is for {' and '.join(families)}")
    if family == MANYLANGS:
        return ManyLangsEncoderFactory(model=model, kernel=kernel, threads=threads, fold_full_width=fold_full_width)
    if family == STATIC:
        return StaticVectorsEncoderFactory(model=model, lowercase=lowercase)
    if family == TRANSFORMER:
        return TransformerEncoderFactory(model=model, threads=threads, pieces=pieces or "mean")
    return BiLmEncoderFactory(
        model=model, kernel=kernel, threads=threads, token_table=token_table, vocabulary=vocabulary
    )


def detect_family(model: Path) -> str:
    """The family of a model, in words.

    Raises:
        ConfigError: There is no such file or folder, or it is of no known family or of several.
    """
    if is_static_vectors(model):
        return STATIC
    if not model.is_dir():
        raise ConfigError(f"model {model}: no such file or folder")
    marks = {ELMO: is_bilm, MANYLANGS: is_manylangs, TRANSFORMER: is_transformer}
    found = [family for family, is_of in marks.items() if is_of(model)]
    if not found:
        raise ConfigError(f"model {model}: holds no model that is known: {', '.join(marks)}, or {STATIC}")
    if len(found) > 1:
        raise ConfigError(f"model {model}: holds files of several models, {' and '.join(found)}; give each a folder")
    return found[0]
