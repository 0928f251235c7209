"""The studies, in the shape of the papers' tables (Peters et al. 2018, sections 4 and 5)."""

from dataclasses import replace

from jobs.studies.datasets import DATASETS, SENSES
from jobs.studies.spec import ELMO, STATIC, Cell, Expectation, Scope, Spec, Study, Words
from jobs.tasks.encoder import Inject

FRACTIONS = (0.01, 0.1, 1.0)
PLACES: dict[str, Inject] = {"input": "input", "input and output": "both", "output": "output"}
# Data sets of the studies that vary ELMo itself; the table of gains has all.
VARIED = ("pos", "wikigold")
SAMPLED = (*VARIED, "polarity")


def _titled(scope: Scope, among: tuple[str, ...] | None = None) -> list[tuple[str, str, str]]:
    """Name, title and encoder of each data set that has an encoder for its language."""
    found = []
    for name in scope.datasets:
        files = DATASETS[name]
        encoder = ELMO if files.language == "en" else f"{ELMO}-{files.language}"
        if encoder in scope.encoders and (among is None or name in among):
            found.append((name, files.title, encoder))
    return found


def _gain(scope: Scope) -> list[Cell]:
    cells = []
    for dataset, title, encoder in _titled(scope):
        kinds: list[Words] = ["learned"]
        if scope.static and DATASETS[dataset].language == "en":
            kinds.append("static")
        for words in kinds:
            name = {"learned": "learned words", "static": "GloVe"}[words]
            base = Spec(method="model", dataset=dataset, words=words)
            elmo = Spec(method="model", dataset=dataset, words=words, encoder=encoder, inject="input")
            cells += [
                Cell(row=title, column=name, spec=base),
                Cell(row=title, column=f"{name} + ELMo", spec=elmo),
            ]
    return cells


def _layers(scope: Scope) -> list[Cell]:
    cells = []
    for dataset, title, encoder in _titled(scope, VARIED):
        with_elmo = Spec(method="model", dataset=dataset, encoder=encoder, inject="input")
        variants = {
            "baseline": Spec(method="model", dataset=dataset),
            "last only": replace(with_elmo, layers="last"),
            "all, λ = 1": replace(with_elmo, layer_penalty=1.0),
            "all, λ = 0.001": with_elmo,
        }
        cells += [Cell(row=title, column=column, spec=spec, split="dev") for column, spec in variants.items()]
    return cells


def _places(scope: Scope) -> list[Cell]:
    cells = []
    for dataset, title, encoder in _titled(scope, VARIED):
        for column, inject in PLACES.items():
            spec = Spec(method="model", dataset=dataset, encoder=encoder, inject=inject)
            cells.append(Cell(row=title, column=column, spec=spec, split="dev"))
    return cells


def _probes(scope: Scope) -> list[Cell]:
    rows = {"GloVe": _probe(STATIC, "all")} if scope.static else {}
    for layer in range(scope.layers(ELMO) if ELMO in scope.encoders else 0):
        rows[f"biLM layer {layer}"] = _probe(ELMO, str(layer))
    cells = [Cell(row="first sense", column="WSD F1", spec=Spec(method="first sense", dataset=SENSES))]
    return cells + _probe_cells(rows)


def _samples(scope: Scope) -> list[Cell]:
    cells = []
    for dataset, title, encoder in _titled(scope, SAMPLED):
        for fraction in FRACTIONS:
            base = Spec(method="model", dataset=dataset, fraction=fraction)
            elmo = Spec(method="model", dataset=dataset, fraction=fraction, encoder=encoder, inject="input")
            row = f"{title}, {100 * fraction:g} %"
            cells += [Cell(row=row, column="baseline", spec=base), Cell(row=row, column="+ ELMo", spec=elmo)]
    return cells


def _weights(scope: Scope) -> list[Cell]:
    return [
        Cell(row=title, column="input and output", spec=Spec(method="model", dataset=dataset, encoder=e, inject="both"))
        for dataset, title, e in _titled(scope)
    ]


def _encoders(scope: Scope) -> list[Cell]:
    rows = {"GloVe": _probe(STATIC, "all")} if scope.static else {}
    for encoder, language in scope.encoders.items():
        layers = scope.layers(encoder) if language == "en" else 0
        for layer in range(layers):
            rows[f"{encoder}, layer {layer}" if layers > 1 else encoder] = _probe(encoder, str(layer))
    return _probe_cells(rows)


def _probe(encoder: str, layers: str) -> Spec:
    return Spec(method="probe", dataset="pos", encoder=encoder, layers=layers)


def _probe_cells(rows: dict[str, Spec]) -> list[Cell]:
    cells = []
    for row, spec in rows.items():
        cells.append(Cell(row=row, column="POS accuracy", spec=spec))
        cells.append(Cell(row=row, column="WSD F1", spec=replace(spec, method="senses", dataset=SENSES)))
    return cells


STUDIES = {
    "gain": Study(
        title="What ELMo adds",
        what="Task models with learned or GloVe word vectors and a character CNN, against the same with ELMo beside "
        "the word vectors. Test scores.",
        cells=_gain,
        expectations=(
            Expectation(better="learned words + ELMo", worse="learned words"),
            Expectation(better="GloVe + ELMo", worse="GloVe"),
        ),
    ),
    "layers": Study(
        title="Which layers",
        what="ELMo at the input: the last layer alone, or all layers mixed with weights that are held at the mean "
        "(λ = 1) or free to move (λ = 0.001). Development scores.",
        cells=_layers,
        expectations=(
            Expectation(better="last only", worse="baseline"),
            Expectation(better="all, λ = 1", worse="last only"),
            Expectation(better="all, λ = 0.001", worse="all, λ = 1"),
        ),
    ),
    "place": Study(
        title="In which place",
        what="ELMo beside the word vectors, beside the output of the RNN, or both. Development scores.",
        cells=_places,
        expectations=(Expectation(better="input", worse="output"),),
    ),
    "probes": Study(
        title="What each layer knows",
        what="A linear classifier on one layer for parts of speech, and nearest mean vectors of SemCor for word senses "
        "(four test sets together; the first sense for lemmas that the corpus lacks). Test scores.",
        cells=_probes,
    ),
    "samples": Study(
        title="With how little data",
        what="The baseline and ELMo at the input with a share of the training sentences. Test scores.",
        cells=_samples,
        expectations=(Expectation(better="+ ELMo", worse="baseline"),),
        plot="curve",
    ),
    "weights": Study(
        title="Which weights are learned",
        what="The layer weights of models with ELMo in both places, the mean over seeds. Test scores.",
        cells=_weights,
        plot="weights",
    ),
    "encoders": Study(
        title="What other encoders give, and cost",
        what="The probes on static vectors and on every encoder given. Test scores.",
        cells=_encoders,
    ),
}
