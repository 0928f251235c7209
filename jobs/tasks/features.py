"""Labelled sentences joined to the features of a store, by id, with a check that both mean the same tokens."""

import json
from collections.abc import Sequence
from pathlib import Path

from jobs.tasks.formats import Example, LabelledSentence, TaggedSentence
from pipeline.errors import PipelineError
from pipeline.features import Features
from pipeline.reader import FeatureStore


class FeatureMismatchError(PipelineError, ValueError):
    """A labelled sentence and the features under its id are not of the same tokens."""


def join(examples: Sequence[Example], store: FeatureStore) -> list[Features]:
    """The features of each labelled sentence; their vectors are read only when asked for.

    Raises:
        UnknownSentenceError: The store does not hold a sentence.
        FailedSentenceError: A sentence has no features.
        FeatureMismatchError: Numbers of tokens, or the tokens, differ; names the sentence.
    """
    joined = []
    for example in examples:
        features = store[example.id]
        tokens = features.tokens
        if len(tokens) != len(example.tokens):
            raise FeatureMismatchError(
                f"sentence {example.id!r} has {len(example.tokens)} labelled tokens but features for {len(tokens)}; "
                "dump the features from the labelled file itself, with `elmo train prepare`"
            )
        for position, (token, labelled) in enumerate(zip(tokens, example.tokens, strict=True)):
            if token != labelled:
                raise FeatureMismatchError(
                    f"token {position} of sentence {example.id!r} is {labelled!r} in the labelled file "
                    f"but {token!r} in the store"
                )
        joined.append(features)
    return joined


def write_corpus(examples: Sequence[Example], path: Path) -> None:
    """Writes the sentences as JSON lines with `id` and `tokens`, which `elmo dump` reads."""
    temporary = path.with_name(f"{path.name}.part")
    with open(temporary, "w", encoding="utf-8", newline="\n") as file:
        for example in examples:
            file.write(json.dumps({"id": example.id, "tokens": example.tokens}, ensure_ascii=False) + "\n")
    temporary.replace(path)


def write_labels(examples: Sequence[Example], path: Path) -> None:
    """Writes the labels as `elmo plot word --labels` reads them: `ID<tab>TOKEN<tab>LABEL`, or `ID<tab>LABEL`.

    A word with several right senses has them joined by a space.
    """
    lines: list[tuple[str, ...]] = []
    for example in examples:
        if isinstance(example, LabelledSentence):
            lines.append((example.id, example.label))
        elif isinstance(example, TaggedSentence):
            lines += [(example.id, str(place), tag) for place, tag in enumerate(example.tags)]
        else:
            lines += [
                (example.id, str(place), " ".join(target.senses))
                for target in example.targets
                for place in range(target.start, target.end)
            ]
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
