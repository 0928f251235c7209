"""Plans of many sentences and commits of many shards; `tests/benchmarks/scale.py` runs larger ones."""

from support.scale import measure


def test_a_plan_takes_some_bytes_of_memory_for_a_sentence() -> None:
    few, many = measure("plan", 20_000), measure("plan", 320_000)
    assert many.sentences == 320_000 and many.shards > 40
    # Eight for its id; objects of Python would take hundreds.
    assert (many.peak - few.peak) / 300_000 < 64
    assert many.processor < 60, "two hundred microseconds a sentence"


def test_thousands_of_receipts_are_committed_in_seconds() -> None:
    few, many = measure("commit", 100), measure("commit", 3000)
    assert many.shards == 3000 and many.sentences == 75_000
    # Receipt, entry of the manifest, and 40 bytes for each of 25 ids.
    assert (many.peak - few.peak) / 2900 < 15_000
    assert many.processor < 30, "ten milliseconds a shard"
