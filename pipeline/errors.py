"""Errors of the pipeline, each one line for the person who reads it: what was given, what is allowed, what to do."""


class PipelineError(Exception):
    """Anything the pipeline refuses or cannot finish."""


class ConfigError(PipelineError, ValueError):
    """A setting that is not allowed, or settings that contradict each other."""


class CorpusError(PipelineError, ValueError):
    """Input that cannot be read as a corpus; names the file and, where there is one, the line."""


class StorageError(PipelineError, OSError):
    """A file or object that cannot be read or written: permissions, a full disk, an unreachable store."""


class OutputInUseError(PipelineError):
    """The output belongs to something else: a live job, another fingerprint, or files that are no store."""


class FingerprintError(OutputInUseError):
    """The output was begun with other inputs, model or options; names the fields that differ."""


class StoreError(PipelineError):
    """A feature store that cannot be opened: absent, unfinished, of a newer format, or damaged."""


class DamageError(StoreError):
    """A file of a store that is not what the manifest says: cut, swapped, renamed or altered."""


class UnknownSentenceError(StoreError, KeyError):
    """An id or position that the store does not hold."""

    def __str__(self) -> str:
        """The message itself; KeyError would print its repr."""
        return str(self.args[0])


class FailedSentenceError(StoreError):
    """A sentence that is in the store but could not be encoded, so it has no features."""


class MissingColumnError(StoreError, LookupError):
    """A column or layer that the store does not hold; names those it does."""


class EncoderOutOfMemoryError(PipelineError):
    """A batch that does not fit the encoder's memory; a smaller one may."""


class DeviceLostError(PipelineError):
    """The encoder's device is beyond use in this process; nothing further can be encoded by it."""


class CarriedStateError(PipelineError):
    """A batch that failed although the next one needs the state it leaves."""


class TooManyFailuresError(PipelineError):
    """More sentences could not be encoded than the limit allows."""


class WorkerLostError(PipelineError):
    """A worker process died: killed, out of memory, or crashed."""


class StoppedError(PipelineError):
    """The job was told to stop; what is finished is kept."""


class IncompleteError(PipelineError):
    """A commit that finds planned shards without a valid receipt."""
