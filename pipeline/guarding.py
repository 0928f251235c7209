"""An encoder that copes: batches that do not fit are halved, and one bad sentence costs no other."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline import stopping
from pipeline.encoding import Encoded, Encoder
from pipeline.errors import CarriedStateError, DeviceLostError, EncoderOutOfMemoryError, TooManyFailuresError
from pipeline.records import Sentence

# Counts the sentences that the spare encoder computed.
ON_SPARE = "encoded_on_spare"


@dataclass(frozen=True, kw_only=True)
class Piece:
    """The outcome for some sentences of a batch: features of all of them, or the reason why the one has none."""

    positions: tuple[int, ...]
    encoded: Encoded | None
    reason: str | None = None


class GuardedEncoder:
    """One encoder of a process with what was learned about it; shared by the process's threads.

    Args:
        encoder: The loaded model.
        max_failures: How many failed sentences this process accepts before it stops the job.
        carried_state: The encoder carries state from batch to batch, so that no batch can be split or repeated.
        load_spare: Loads the same model where there is more memory, for single sentences that do not fit; called when
            the first one does not. Without it they fail.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        max_failures: int,
        carried_state: bool = False,
        load_spare: Callable[[], Encoder] | None = None,
    ) -> None:
        self._encoder = encoder
        self._load_spare = load_spare
        self._spare: Encoder | None = None
        self._lost: DeviceLostError | None = None
        self._carried_state = carried_state
        # Reading and writing go on in other threads while one computes.
        self._forward = threading.Semaphore(1)
        self._max_failures = max_failures
        self._failures = 0
        self._fitting_tokens: int | None = None

    @property
    def runtime(self) -> Mapping[str, str]:
        """What really runs, as the encoder says."""
        return self._encoder.runtime

    def encode(self, sentences: Sequence[Sentence], batch: Sequence[int]) -> Iterator[Piece]:
        """The features of the sentences at the positions in `batch`, in as many pieces as it takes.

        A batch that runs out of memory is halved, down to single sentences, and no later batch is larger than what
        fitted. A batch that fails for another reason is halved as well, until the sentence at fault stands alone. A
        single sentence that does not fit is computed by the spare encoder, if there is one, and counted as
        `encoded_on_spare`.

        Raises:
            DeviceLostError: The device broke, now or in an earlier call; names the first sentence of the batch it broke
                on.
            TooManyFailuresError: More sentences failed than the limit allows.
            CarriedStateError: A batch failed under carried state.
            StoppedError: The job was told to stop.
        """
        waiting = [tuple(batch)]
        while waiting:
            stopping.check()
            if self._lost is not None:
                raise DeviceLostError(str(self._lost))
            positions = waiting.pop()
            padded = len(positions) * max(len(sentences[position].tokens) for position in positions)
            if self._fitting_tokens is not None and padded > self._fitting_tokens and len(positions) > 1:
                waiting += _halves(positions)
                continue
            try:
                with self._forward:
                    encoded = self._encoder.encode([sentences[position].tokens for position in positions])
            except DeviceLostError as error:
                self._lost = DeviceLostError(f"at sentence {sentences[positions[0]].id!r}: {error}")
                raise self._lost from error
            except Exception as error:
                if self._carried_state:
                    raise CarriedStateError(
                        f"the batch that begins with {sentences[positions[0]].id!r} failed, and carried state cannot "
                        f"go on without it ({type(error).__name__}: {error})"
                    ) from error
                if len(positions) > 1:
                    if isinstance(error, EncoderOutOfMemoryError):
                        self._fitting_tokens = padded // 2
                    waiting += _halves(positions)
                    continue
                yield self._by_spare(sentences, positions[0], error)
            else:
                yield Piece(positions=positions, encoded=encoded)
                del encoded  # before the next are computed

    def _by_spare(self, sentences: Sequence[Sentence], position: int, error: Exception) -> Piece:
        """The outcome for a single sentence that the encoder itself could not compute."""
        if isinstance(error, EncoderOutOfMemoryError) and self._load_spare is not None:
            try:
                with self._forward:
                    self._spare = self._spare or self._load_spare()
                    encoded = self._spare.encode([sentences[position].tokens])
            except Exception as again:
                error = again
            else:
                return Piece(positions=(position,), encoded=replace(encoded, counts=encoded.counts | {ON_SPARE: 1}))
        return self.failed(sentences, position, f"{type(error).__name__}: {error}")

    def failed(self, sentences: Sequence[Sentence], position: int, reason: str) -> Piece:
        """Counts a sentence that has no features.

        Raises:
            TooManyFailuresError: It was one too many.
        """
        self._failures += 1
        if self._failures > self._max_failures:
            sentence = sentences[position]
            raise TooManyFailuresError(
                f"more than {self._max_failures} sentences failed, the last one {sentence.id!r} "
                f"({sentence.source}:{sentence.line}): {reason}; raise the limit or mend the input, then run again"
            )
        return Piece(positions=(position,), encoded=None, reason=reason)


def _halves(positions: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The two halves of a batch, the first half last, since the waiting list is taken from its end."""
    middle = (len(positions) + 1) // 2
    return [positions[middle:], positions[:middle]]
