"""The measures of the papers: accuracy, and F1 of whole entities."""

from collections.abc import Sequence

from jobs.tasks.schemes import to_iob2
from pipeline.errors import ConfigError


def accuracy(right: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """The share of positions at which two lists of sequences agree; 0 where there are none."""
    pairs = [pair for rows in zip(right, predicted, strict=True) for pair in zip(*rows, strict=True)]
    return sum(one == other for one, other in pairs) / len(pairs) if pairs else 0.0


def entity_f1(right: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """F1 over entities, which count as found where both ends and the type are right; tags in BIOUL.

    It is 0 where nothing is predicted, as in the CoNLL evaluation.

    Raises:
        ConfigError: The library that counts is not installed; says how to get it.
    """
    try:
        from nervaluate import Evaluator  # noqa: PLC0415 -- an optional library
    except ImportError:
        raise ConfigError("F1 of entities needs nervaluate: pip install 'elmo-features[tasks]'") from None
    kinds = sorted({tag[2:] for sequence in [*right, *predicted] for tag in sequence if tag != "O"})
    if not kinds:
        return 0.0
    evaluator = Evaluator(
        [to_iob2(tags) for tags in right], [to_iob2(tags) for tags in predicted], tags=kinds, loader="list"
    )
    return float(evaluator.evaluate()["overall"]["strict"].f1)
