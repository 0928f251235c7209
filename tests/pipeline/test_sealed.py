import json
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import DamageError
from pipeline.sealed import seal, sha256_of, unseal

VALUES = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
    min_size=1,
    max_size=5,
)


@given(VALUES)
def test_what_was_sealed_comes_back_and_is_json(value: dict[str, object]) -> None:
    data = seal(value)
    assert unseal(data, "f.json") == value
    assert len(json.loads(data)["sha256"]) == 64


@given(VALUES, st.data())
def test_any_altered_byte_is_noticed(value: dict[str, object], data: st.DataObject) -> None:
    sealed = seal(value)
    position = data.draw(st.integers(0, len(sealed) - 1))
    flipped = sealed[position] ^ data.draw(st.integers(1, 255))
    with pytest.raises(DamageError, match=r"^f\.json is damaged"):
        unseal(sealed[:position] + bytes([flipped]) + sealed[position + 1 :], "f.json")
    with pytest.raises(DamageError, match=r"^f\.json is damaged"):
        unseal(sealed[:position], "f.json")
    with pytest.raises(DamageError, match=r"^f\.json is damaged"):
        unseal(sealed + b"\n", "f.json")


def test_the_order_of_keys_does_not_matter() -> None:
    assert seal({"b": 1, "a": {"d": 2, "c": 3}}) == seal({"a": {"c": 3, "d": 2}, "b": 1})


def test_digest_of_a_file_starts_at_its_start() -> None:
    file = BytesIO(b"abc" * 10**6)
    file.seek(5)
    assert sha256_of(file) == "f4096a131e7e6ebfa7a512b5c299e13b065df34d15624ee1202ab394cc4d7e90"
