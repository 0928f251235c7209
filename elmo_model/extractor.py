"""The frozen model in use: from sentences to the columns of features."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.bilm import BiLm, run_layers
from elmo_model.columns import TOKEN, ModelColumn, columns, lstm_column
from elmo_model.errors import DeviceError
from elmo_model.host_copies import HostCopies
from elmo_model.kernels.select import KernelName, Precision, choose_kernels
from elmo_model.lstm import LstmState
from elmo_model.packing import Packing, pack
from elmo_model.token_cache import CACHED_TYPES, TokenVectors
from elmo_model.token_encoder import TokenEncoder

Sentence = Sequence[str]
A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, kw_only=True)
class Features:
    """What a batch of sentences gives.

    Attributes:
        columns: For each column asked for, float32 (tokens of all sentences in the order given, p).
        counts: How many tokens were read otherwise than their spelling says: `truncated_tokens`, `dropped_surrogates`,
            `boundary_like_tokens`, `unknown_words`; those that are 0 are left out.
    """

    columns: dict[str, NDArray[np.float32]]
    counts: dict[str, int]


class Extractor:
    """Gives the columns of a biLM, computing only the layers and directions they need.

    Every sentence starts from the zero state, so its vectors depend on nothing but the sentence and the model, up to
    float32 rounding between different batches; the same batch gives the same bits, with the fast CPU kernel on any
    number of threads. (The authors of ELMo warn that resetting the state can cost a little quality against the carried
    state of their programs.)

    Args:
        bilm: The model.
        columns: Names of the columns wanted, all by default.
        device: `cpu`, `cuda` or `cuda:N`.
        precision: Of the LSTM products; results are float32 always.
        kernel: `auto` takes the fastest kernel there is, `plain` the plain definition.
        carried_state: Compatibility with the originals: row k of a batch starts from the state that row k of the batch
            before ended in. Results then depend on the order and size of all batches.
        cached_types: Word types whose token vectors are kept.
        threads: Threads of the fast CPU kernel, by default as many as torch uses; results don't depend on it.
        consume: Whether to empty the model's weights once a kernel keeps them in its own layout, so that they
            aren't held twice. The model can't be used for anything else afterwards.

    Attributes:
        columns: The columns given, in the model's order.
        kernel: Which kernel computes, and why.

    Raises:
        DeviceError: If the device, or the precision on it, isn't available.
        ValueError: If the model has no column of a name asked for.
    """

    def __init__(
        self,
        bilm: BiLm,
        *,
        columns: Sequence[str] | None = None,
        device: str = "cpu",
        precision: Precision = "float32",
        kernel: KernelName = "auto",
        carried_state: bool = False,
        cached_types: int = CACHED_TYPES,
        threads: int | None = None,
        consume: bool = False,
    ) -> None:
        self.device = available_device(device)
        self.columns = _chosen(bilm, columns)
        depth = max(column.layer for column in self.columns)
        wanted = {column.direction for column in self.columns}
        self._directions = tuple(name for name in bilm.directions if name in wanted)
        empty = LstmState(
            torch.zeros(0, bilm.lstm.dim, device=self.device),
            torch.zeros(0, bilm.lstm.projection_dim, device=self.device),
        )
        self._zero = [[empty for _ in self._directions] for _ in range(depth)]
        kernels = choose_kernels(
            bilm,
            depth=depth,
            directions=self._directions,
            device=self.device,
            precision=precision,
            kernel=kernel,
            threads=torch.get_num_threads() if threads is None else threads,
            consume=consume,
        )
        self.kernel = kernels.choice
        self._layers = kernels.layers
        self._workers, self._conductor = kernels.workers, kernels.conductor
        self._use_skip_connections = bilm.lstm.use_skip_connections
        self._encoder = bilm.token_encoder
        self.token_vectors = TokenVectors(self._encoder, kernels.tokens, capacity=cached_types, device=self.device)
        self._carried = self._zero if carried_state else None
        self._after_boundary = [] if carried_state else self._boundary_states()

    def encode(self, sentences: Sequence[Sentence]) -> Features:
        """The columns of a batch of sentences, computed together.

        Args:
            sentences: Lists of tokens, which may be empty; boundaries are added and removed here.

        Raises:
            TypeError: If a sentence is a string, or a token isn't one.
        """
        check_sentences(sentences)
        if self._conductor is None:
            return self._encode(sentences)
        return self._conductor.map(self._encode, [sentences])[0]

    def _encode(self, sentences: Sequence[Sentence]) -> Features:
        begin, end = self._encoder.begin_sentence, self._encoder.end_sentence
        if self._carried is not None:
            read: Sequence[Sentence] = [[begin, *sentence, end] for sentence in sentences]
        else:
            read = sentences  # the first step, over the boundary, is the same for all and is done already
        lengths = np.array([len(sentence) for sentence in read], dtype=np.int64)
        types: dict[str, int] = {}
        places = np.array([types.setdefault(token, len(types)) for sentence in read for token in sentence], np.int64)
        with torch.inference_mode():
            tokens = self.token_vectors.of(list(types))[torch.from_numpy(places).to(self.device)]
            inner = None
            if self._carried is not None:
                inner = torch.from_numpy(_without_boundaries(lengths)).to(self.device)
            copies = HostCopies(self.device)
            for name, rows in self._run(tokens, pack(lengths)):
                copies.begin(name, rows if inner is None else rows[inner])
            found = copies.finish()
            arrays = {column.name: found[column.name].numpy() for column in self.columns}
        return Features(columns=arrays, counts=count_remarks(self._encoder, sentences))

    def encode_stream(self, sentences: Iterable[Sentence], *, max_batch_tokens: int) -> Iterator[Features]:
        """The columns of consecutive batches of at most `max_batch_tokens` tokens, made as they are taken.

        A longer sentence makes a batch of its own.
        """
        batch: list[Sentence] = []
        tokens = 0
        for sentence in sentences:
            check_sentences([sentence])
            if batch and tokens + len(sentence) > max_batch_tokens:
                yield self.encode(batch)
                batch, tokens = [], 0
            batch.append(sentence)
            tokens += len(sentence)
        if batch:
            yield self.encode(batch)

    def reset_state(self) -> None:
        """With carried state: starts over from zero."""
        if self._carried is not None:
            self._carried = self._zero

    def _run(self, tokens: Tensor, packing: Packing) -> Iterator[tuple[str, Tensor]]:
        """The name and rows (tokens, p), in the order of the tokens, of each column asked for, once it is computed."""
        wanted = {column.name for column in self.columns}
        if not packing.batch_sizes:
            yield from ((name, tokens) for name in wanted)
            return
        if TOKEN in wanted:
            yield TOKEN, tokens
        if not self._layers:
            return
        rows = [torch.from_numpy(packing.rows[direction]).to(self.device) for direction in self._directions]
        order = torch.from_numpy(packing.order[: packing.n_sentences]).to(self.device)
        layers = run_layers(
            self._layers,
            self._for_each(tokens.__getitem__, rows),
            packing.batch_sizes,
            self._states_before(order),
            use_skip_connections=self._use_skip_connections,
        )
        after = []
        computed: list[tuple[str, Tensor, Tensor]] = []
        for depth, (outputs, states) in enumerate(layers, start=1):
            after.append(states)
            names = [lstm_column(depth, direction) for direction in self._directions]
            computed += [part for part in zip(names, rows, outputs, strict=True) if part[0] in wanted]
            if self.device.type != "cpu":  # results are brought to the host while the next layer is computed
                yield from self._in_order(computed)
        # On the host a layer's results are kept once while the next needs them, and not in the other order as well.
        del layers, outputs
        yield from self._in_order(computed)
        if self._carried is not None:
            self._carried = [
                [_updated(old, new, order) for old, new in zip(*pair, strict=True)]
                for pair in zip(self._carried, after, strict=True)
            ]

    def _in_order(self, computed: list[tuple[str, Tensor, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """Takes names, places and packed rows off the list; gives each name with its rows at their places."""
        while computed:
            count = len(self._directions)
            yield from self._for_each(_placed, computed[:count])
            del computed[:count]

    def _for_each(self, function: Callable[[A], B], parts: Sequence[A]) -> list[B]:
        """The function's results for parts that can be computed side by side."""
        return list(map(function, parts)) if self._workers is None else self._workers.map(function, parts)

    def _states_before(self, order: Tensor) -> list[list[LstmState]]:
        """States before the first token, for each layer and direction, of sentences in the given order."""
        n_sentences = len(order)
        if self._carried is None:
            return [
                [LstmState(*(part.expand(n_sentences, -1) for part in state)) for state in layer]
                for layer in self._after_boundary
            ]
        return [
            [LstmState(*(_grown(part, n_sentences)[order] for part in state)) for state in layer]
            for layer in self._carried
        ]

    @torch.inference_mode()
    def _boundary_states(self) -> list[list[LstmState]]:
        """States after the boundary that each direction reads first, for each layer and direction; one row each."""
        first = {"forward": self._encoder.begin_sentence, "backward": self._encoder.end_sentence}
        inputs = [self.token_vectors.of([first[direction]]) for direction in self._directions]
        zero = [[LstmState(*(_grown(part, 1) for part in state)) for state in layer] for layer in self._zero]
        layers = run_layers(self._layers, inputs, [1], zero, use_skip_connections=self._use_skip_connections)
        return [states for _, states in layers]


def _placed(computed: tuple[str, Tensor, Tensor]) -> tuple[str, Tensor]:
    name, places, packed = computed
    return name, torch.empty_like(packed).index_copy_(0, places, packed)


def count_remarks(encoder: TokenEncoder, sentences: Sequence[Sentence]) -> dict[str, int]:
    """The sums, over all tokens, of what the encoder remarks; those that are 0 are left out."""
    counts: Counter[str] = Counter()
    for token, times in Counter(token for sentence in sentences for token in sentence).items():
        for name, count in encoder.remarks(token).items():
            counts[name] += count * times
    return dict(counts)


def available_device(device: str) -> torch.device:
    """The device of that name, which is there.

    Raises:
        DeviceError: If it isn't, or no device that is supported is called so.
    """
    try:
        found = torch.device(device)
    except RuntimeError:
        raise DeviceError(f"no device is called {device!r}; use cpu, cuda or cuda:N") from None
    if found.type not in ("cpu", "cuda"):
        raise DeviceError(f"device {device!r} isn't supported; use cpu, cuda or cuda:N")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise DeviceError(
            f"device {device!r} isn't there: torch sees {torch.cuda.device_count()} CUDA devices; use cpu"
        )
    return found


def _chosen(bilm: BiLm, names: Sequence[str] | None) -> tuple[ModelColumn, ...]:
    offered = columns(n_layers=bilm.lstm.n_layers, width=bilm.lstm.projection_dim, directions=bilm.directions)
    if names is None:
        return offered
    unknown = [name for name in names if name not in {column.name for column in offered}]
    if unknown or not names:
        raise ValueError(f"columns {list(names)} asked for; the model has {[column.name for column in offered]}")
    return tuple(column for column in offered if column.name in names)


def check_sentences(sentences: Sequence[Sentence]) -> None:
    """Refuses strings where lists of tokens are wanted.

    Raises:
        TypeError: If a sentence is a string, or a token isn't one.
    """
    hint = "give lists of tokens, such as [['the', 'cat'], ['sat']]"
    if isinstance(sentences, str):
        raise TypeError(f"the sentences are one string, {sentences[:40]!r}; {hint}")
    for sentence in sentences:
        if isinstance(sentence, str):
            raise TypeError(f"a sentence is the string {sentence[:40]!r}; {hint}")
        for token in sentence:
            if not isinstance(token, str):
                raise TypeError(f"a token is of type {type(token).__name__}: {str(token)[:40]!r}; {hint}")


def _without_boundaries(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    ends = np.cumsum(lengths)
    return np.setdiff1d(np.arange(lengths.sum()), np.concatenate([ends - lengths, ends - 1]))


def _grown(part: Tensor, rows: int) -> Tensor:
    """The rows of a state part, with zeros for rows it doesn't have yet."""
    missing = rows - len(part)
    return part if missing <= 0 else torch.cat([part, part.new_zeros(missing, part.shape[1])])


def _updated(old: LstmState, new: LstmState, order: Tensor) -> LstmState:
    """The carried state with the rows in `order` replaced; later rows stay as they were."""
    return LstmState(
        *(_grown(before, len(order)).index_copy(0, order, after) for before, after in zip(old, new, strict=True))
    )
