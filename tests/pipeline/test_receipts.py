from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import DamageError
from pipeline.planning import Plan
from pipeline.receipts import file_sha256, read_receipt, valid_receipt, write_receipt
from pipeline.schema import receipt_name
from pipeline.sealed import seal, unseal
from pipeline.storage import Folder
from support.stores import bilm_columns, make_sentences, write_finished_shards


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")


@pytest.fixture
def plan(folder: Folder) -> Plan:
    return write_finished_shards(
        folder, [make_sentences([2, 0, 1]), make_sentences([4])], columns=bilm_columns(1, width=2)
    )


def test_a_receipt_comes_back(folder: Folder, plan: Plan) -> None:
    receipt = read_receipt(folder, 1)
    assert receipt == valid_receipt(folder, plan, plan.shards[1])
    assert (receipt.shard, receipt.sentences, receipt.tokens, receipt.failed) == (1, 1, 4, 0)
    assert receipt.file == f"shards/00001-{receipt.sha256[:8]}.h5"
    path = folder.local_path(receipt.file)
    assert path is not None and file_sha256(path) == receipt.sha256
    assert receipt.runtime == {"device": "cpu"}


def test_keys_of_a_newer_version_are_ignored(folder: Folder, plan: Plan) -> None:
    value = unseal(folder.read_bytes(receipt_name(0)), "")
    folder.write_bytes(receipt_name(0), seal({**value, "gpu_seconds": 1}))
    assert valid_receipt(folder, plan, plan.shards[0]) is not None


def test_a_shard_without_a_fitting_receipt_is_to_be_done_again(folder: Folder, plan: Plan) -> None:
    shard, receipt = plan.shards[0], read_receipt(folder, 0)
    for wrong in (
        replace(receipt, fingerprint="0" * 64),
        replace(receipt, sentences=2),
        replace(receipt, tokens=4),
        replace(receipt, bytes=receipt.bytes + 1),
        replace(receipt, sha256="0" * 64),
        replace(receipt, file="../elsewhere.h5"),
        replace(receipt, sha256="0" * 64, file="shards/00000-00000000.h5"),
    ):
        write_receipt(folder, wrong)
        assert valid_receipt(folder, plan, shard) is None, wrong
    write_receipt(folder, receipt)
    assert valid_receipt(folder, plan, shard) == receipt
    folder.write_bytes(receipt_name(0), folder.read_bytes(receipt_name(1)))
    assert valid_receipt(folder, plan, shard) is None
    folder.remove(receipt_name(0))
    assert valid_receipt(folder, plan, shard) is None


def test_a_cut_or_missing_file_voids_the_receipt(folder: Folder, plan: Plan) -> None:
    receipt = read_receipt(folder, 0)
    folder.write_bytes(receipt.file, folder.read_bytes(receipt.file)[:-1])
    assert valid_receipt(folder, plan, plan.shards[0]) is None
    folder.remove(receipt.file)
    assert valid_receipt(folder, plan, plan.shards[0]) is None


def test_reading_says_what_is_wrong(folder: Folder, plan: Plan) -> None:
    folder.write_bytes(receipt_name(0), folder.read_bytes(receipt_name(1)))
    with pytest.raises(DamageError, match=r"receipts/00000\.json is the receipt of shard 1"):
        read_receipt(folder, 0)
    folder.write_bytes(receipt_name(0), seal({"shard": 0}))
    with pytest.raises(DamageError, match=r"receipts/00000\.json is damaged: not a receipt .*fingerprint"):
        read_receipt(folder, 0)
    folder.write_bytes(receipt_name(0), seal({**unseal(folder.read_bytes(receipt_name(1)), ""), "file": 3}))
    with pytest.raises(DamageError, match=r"receipts/00000\.json is damaged: the file 3 is not named"):
        read_receipt(folder, 0)
