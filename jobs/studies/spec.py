"""What a table consists of: cells, each the mean of some runs, and the order that the papers lead one to expect."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from jobs.studies.datasets import Sizes
from jobs.tasks.encoder import Inject
from pipeline.errors import ConfigError

Method = Literal["model", "probe", "senses", "first sense"]
Words = Literal["learned", "static"]
ELMO = "elmo"
STATIC = "static"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What one run does, but for its seed.

    Attributes:
        method: A task model, a linear probe, nearest senses, or always the first sense.
        dataset: A name of `DATASETS`, or `SENSES`.
        words: The word vectors of a task model.
        encoder: Whose features: a name given with the models, or `static` for a probe on static vectors.
        inject: Where a task model takes ELMo in.
        layers: `all`, `last` or a number.
        layer_penalty: Of the mix.
        fraction: The share of the training sentences.
    """

    method: Method
    dataset: str
    words: Words = "learned"
    encoder: str | None = None
    inject: Inject = "none"
    layers: str = "all"
    layer_penalty: float = 0.001
    fraction: float = 1.0

    def describe(self) -> str:
        """The run in a few words."""
        words = {"learned": "", "static": ", static words"}[self.words]
        elmo = f", {self.encoder} layers {self.layers}" if self.encoder else ""
        place = f" at {self.inject}, penalty {self.layer_penalty:g}" if self.inject != "none" else ""
        share = f", {100 * self.fraction:g} %" if self.fraction < 1 else ""
        return f"{self.dataset} {self.method}{words}{elmo}{place}{share}"

    @property
    def seeded(self) -> bool:
        """Whether its result depends on a seed."""
        return self.method in ("model", "probe")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a table: its runs, and which of their scores it shows."""

    row: str
    column: str
    spec: Spec
    split: Literal["dev", "test"] = "test"


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What the papers found: `better` above `worse`, two columns of the table."""

    better: str
    worse: str


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The budget of every run, the same for all columns of a table.

    Attributes:
        sizes: Of the data.
        seeds: Runs a cell, with the seeds 0, 1, ...
        epochs: At most.
        patience: Epochs without a better development score.
        hidden: Units of a task model's LSTM in each direction.
        learning_rate: Of Adam; above the papers', as there are far fewer updates.
    """

    sizes: Sizes = field(default_factory=Sizes)
    seeds: int = 3
    epochs: int = 12
    patience: int = 4
    hidden: int = 64
    learning_rate: float = 0.003

    def __post_init__(self) -> None:
        if min(self.seeds, self.epochs, self.patience, self.hidden) < 1:
            raise ConfigError("seeds, epochs, patience and hidden units start at 1")


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a study can draw on.

    Attributes:
        datasets: Names of `DATASETS` to report on.
        encoders: The language of each encoder at hand.
        layers: Gives the number of layers of an encoder.
        static: Whether static vectors are at hand.
    """

    datasets: tuple[str, ...]
    encoders: dict[str, str]
    layers: Callable[[str], int]
    static: bool


@dataclass(frozen=True, kw_only=True)
class Study:
    """A table.

    Attributes:
        title: Its heading.
        what: What is compared, in a sentence or two.
        cells: The cells, by what there is to draw on.
        expectations: Orders found in the papers, to be held against the result.
        plot: How it is drawn.
    """

    title: str
    what: str
    cells: Callable[[Scope], list[Cell]]
    expectations: tuple[Expectation, ...] = ()
    plot: Literal["bars", "curve", "weights"] = "bars"
