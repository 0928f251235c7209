"""Tag schemes of entities: IOB2 as data sets have it, BIOUL as the tagger predicts it."""

from collections.abc import Iterable, Sequence


def to_bioul(tags: Sequence[str]) -> list[str]:
    """IOB2 tags as BIOUL: U for an entity of one token, L for the last of more.

    Raises:
        ValueError: A tag is not `O`, `B-TYPE` or `I-TYPE`, or an I continues nothing of its type.
    """
    bioul = []
    for position, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        if tag == "O":
            bioul.append(tag)
            continue
        if prefix not in ("B", "I") or not kind:
            raise ValueError(f"tag {tag!r} is not O, B-TYPE or I-TYPE")
        if prefix == "I" and (position == 0 or tags[position - 1] not in (f"B-{kind}", f"I-{kind}")):
            raise ValueError(f"tag {tag!r} continues no entity of its type; IOB2 starts one with B-{kind}")
        goes_on = position + 1 < len(tags) and tags[position + 1] == f"I-{kind}"
        bioul.append(f"{({'B': 'BU', 'I': 'IL'}[prefix])[0 if goes_on else 1]}-{kind}")
    return bioul


def to_iob2(tags: Sequence[str]) -> list[str]:
    """BIOUL tags as IOB2."""
    return [{"U": "B", "L": "I"}.get(tag[0], tag[0]) + tag[1:] for tag in tags]


def may_follow(left: str | None, right: str | None) -> bool:
    """Whether BIOUL allows `right` directly after `left`; None is the start or the end of the sentence."""
    inside = left is not None and left[0] in "BI"
    continues = right is not None and right[0] in "IL"
    if inside and continues:
        assert left is not None and right is not None
        return left[1:] == right[1:]
    return inside == continues


def is_iob2(tags: Iterable[str]) -> bool:
    """Whether a set of tags is that of entities: `O`, and `B-TYPE` or `I-TYPE` of at least one type."""
    kinds = {tag for tag in tags if tag != "O"}
    return bool(kinds) and all(tag[:2] in ("B-", "I-") and len(tag) > 2 for tag in kinds)
