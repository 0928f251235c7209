"""Which family a model is of, told from its folder."""

from elmo_model.kernels.select import KernelName
from jobs.encoders.bilm import BiLmEncoderFactory
from pipeline.encoding import EncoderFactory


def encoder_factory(model: str, *, kernel: KernelName, threads: int) -> EncoderFactory:
    """The encoder for a model folder.

    Args:
        model: The folder.
        kernel: How LSTMs are computed.
        threads: Cores that one process computes with.
    """
    return BiLmEncoderFactory(model=model, kernel=kernel, threads=threads)
