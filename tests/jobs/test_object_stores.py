"""The same job on object stores: corpora, models and stores behind s3:// and gs:// URLs, and what goes wrong there."""

import pickle
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from jobs.encoders.located import CACHE_VARIABLE
from pipeline.commit import commit
from pipeline.errors import CorpusError, OutputInUseError, StorageError, StoreError
from pipeline.reader import FeatureStore
from pipeline.schema import ShardFormat
from pipeline.storage import Folder
from support.cli import elmo
from support.dumping import fake_dump, lasting_files, start_fake_dump, wait_for_receipts, write_corpus
from support.object_stores import Proxy
from support.paths import GOLDEN
from support.stores import bilm_columns, make_sentences, write_finished_shards, write_store


def test_a_folder_keeps_its_promises(object_store: tuple[str, Proxy]) -> None:
    folder = Folder(object_store[0])
    assert folder.list("a") == [] and folder.top_level() == () and not folder.exists("a/b")
    assert folder.create_bytes("a/b", b"1")
    assert not folder.create_bytes("a/b", b"2")
    assert folder.read_bytes("a/b") == b"1"
    folder.write_bytes("a/b", b"3")
    with folder.staged("a/c.h5") as path:
        path.write_bytes(b"x" * 100)
        folder.publish(path, "a/c.h5")
    assert folder.list("a") == ["a/b", "a/c.h5"] and folder.size("a/c.h5") == 100
    with folder.open("a/c.h5") as file:
        file.seek(98)
        assert file.read() == b"xx"
    folder.remove("a/b")
    folder.remove("a/b")
    folder.remove_all("a")
    folder.remove_all("a")
    assert folder.top_level() == ()


def contents(url: str) -> dict[str, bytes]:
    """Every file of a store but the receipts, which hold times."""
    folder = Folder(url)
    return {name: folder.read_bytes(name) for name in folder.walk() if not name.startswith("receipts/")}


def expected_contents(corpus: Path, out: Path) -> dict[str, bytes]:
    fake_dump(corpus, out)
    return {name: (out / name).read_bytes() for name in lasting_files(out)}


def upload(corpus: Path, url: str) -> None:
    for path in corpus.iterdir():
        Folder(url).write_bytes(path.name, path.read_bytes())


def test_corpus_and_store_on_an_object_store_give_the_same_bytes_as_on_a_disk(
    object_store: tuple[str, Proxy], tmp_path: Path
) -> None:
    url, proxy = object_store
    corpus = write_corpus(tmp_path / "corpus", sentences=24)
    expected = expected_contents(corpus, tmp_path / "out")
    upload(corpus, f"{url}/corpus")
    Folder(f"{url}/corpus").write_bytes(".hidden/x.txt", b"not this\n")
    proxy.requests.clear()
    shards = fake_dump([f"{url}/corpus"], f"{url}/out").shards
    assert len(proxy.requests) < 24 * len(shards) + 40
    assert contents(f"{url}/out") == expected
    fake_dump([f"{url}/corpus/[ab].txt"], f"{url}/again", workers=2)
    assert contents(f"{url}/again") == expected
    proxy.requests.clear()
    fake_dump([f"{url}/corpus"], f"{url}/out")
    assert not [request for request in proxy.requests if request.method == "PUT" and "shards" in request.path]
    fake_dump([f"{url}/corpus/a.txt", str(corpus / "b.txt")], f"{url}/mixed")
    sources = {sentence.source for sentence in FeatureStore.open(f"{url}/mixed")}
    assert {source.rpartition("/")[2] for source in sources} == {"a.txt", "b.txt"}


@pytest.mark.parametrize("given", ["corpus/none.txt", "corpus/*.tsv", "nothing"])
def test_input_that_is_not_there_is_refused_and_leaves_nothing(
    object_store: tuple[str, Proxy], tmp_path: Path, given: str
) -> None:
    url, _ = object_store
    upload(write_corpus(tmp_path / "corpus", sentences=24), f"{url}/corpus")
    with pytest.raises(CorpusError, match="no such file"):
        fake_dump([f"{url}/{given}"], f"{url}/out")
    assert Folder(f"{url}/out").top_level() == ()


def test_passing_errors_of_the_store_are_retried(object_store: tuple[str, Proxy], tmp_path: Path) -> None:
    url, proxy = object_store
    corpus = write_corpus(tmp_path / "corpus", sentences=24)
    expected = expected_contents(corpus, tmp_path / "out")
    upload(corpus, f"{url}/corpus")
    proxy.failing.update(
        {
            "(PUT|POST) .*plan.json": 1,
            "(PUT|POST) .*shards/": 2,
            "(PUT|POST) .*manifest.json": 1,
            "GET .*tasks": 2,
            "GET .*a.txt": 1,
        }
    )
    fake_dump([f"{url}/corpus"], f"{url}/out")
    assert set(proxy.failing.values()) == {0}
    assert contents(f"{url}/out") == expected


@pytest.mark.parametrize(
    ("failing", "named"),
    [
        ("GET .*tasks.*00002", "cannot read .*tasks/00002.parquet"),
        ("(PUT|POST) .*manifest.json", "cannot write .*manifest.json"),
    ],
)
def test_a_store_that_fails_for_good_ends_the_job_which_can_be_resumed(
    object_store: tuple[str, Proxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, named: str
) -> None:
    url, proxy = object_store
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    monkeypatch.setattr("gcsfs.retry.asyncio.sleep", _at_once)
    corpus = write_corpus(tmp_path / "corpus", sentences=24)
    expected = expected_contents(corpus, tmp_path / "out")
    url = f"{url}/{abs(hash(failing))}"
    proxy.failing[failing] = 1000
    with pytest.raises(StorageError, match=named):
        fake_dump(corpus, f"{url}/out")
    with pytest.raises(StoreError, match=r"no manifest|not complete|unfinished"):
        FeatureStore.open(f"{url}/out")
    proxy.failing.clear()
    fake_dump(corpus, f"{url}/out")
    assert contents(f"{url}/out") == expected


async def _at_once(seconds: float) -> None:
    pass


def begun_job(url: str, tmp_path: Path) -> tuple[Path, dict[str, bytes], subprocess.Popen[str]]:
    """A corpus, what a dump of it holds in the end, and the process of one that has finished its first shard."""
    corpus = write_corpus(tmp_path / "corpus", sentences=24)
    expected = expected_contents(corpus, tmp_path / "out")
    job = start_fake_dump(corpus, f"{url}/out", seconds=0.2)
    wait_for_receipts(f"{url}/out")
    return corpus, expected, job


def test_a_killed_job_keeps_its_claim_until_it_is_taken_over(object_store: tuple[str, Proxy], tmp_path: Path) -> None:
    url, _ = object_store
    corpus, expected, job = begun_job(url, tmp_path)
    with pytest.raises(OutputInUseError, match=rf"in use by process {job.pid} on .*--take-over"):
        fake_dump(corpus, f"{url}/out")
    job.kill()
    job.communicate(timeout=60)
    with pytest.raises(OutputInUseError, match=rf"in use by process {job.pid}"):
        fake_dump(corpus, f"{url}/out")
    fake_dump(corpus, f"{url}/out", take_over=True)
    assert contents(f"{url}/out") == expected


def test_a_job_that_was_told_to_stop_gives_its_claim_back_and_the_same_command_goes_on(
    object_store: tuple[str, Proxy], tmp_path: Path
) -> None:
    url, _ = object_store
    corpus, expected, job = begun_job(url, tmp_path)
    job.send_signal(signal.SIGTERM)
    _, errors = job.communicate(timeout=60)
    assert job.returncode == 128 + signal.SIGTERM
    assert errors.splitlines()[-1].endswith(f"run the same command again to go on with {url}/out")
    assert Folder(f"{url}/out").list("locks") == []
    fake_dump(corpus, f"{url}/out")
    assert contents(f"{url}/out") == expected


def test_a_job_taken_over_while_it_lives_does_the_same_work_twice_and_no_harm(
    object_store: tuple[str, Proxy], tmp_path: Path
) -> None:
    url, _ = object_store
    corpus, expected, job = begun_job(url, tmp_path)
    fake_dump(corpus, f"{url}/out", take_over=True)
    assert contents(f"{url}/out") == expected
    _, errors = job.communicate(timeout=120)
    # It finds its shards done and ends well, or finds its tasks removed and says so.
    assert job.returncode == 0 or "cannot read" in errors
    assert contents(f"{url}/out") == expected


def test_of_jobs_that_start_at_once_one_runs_and_the_others_are_refused(
    object_store: tuple[str, Proxy], tmp_path: Path
) -> None:
    url, _ = object_store
    folder = Folder(f"{url}/out")
    barrier = threading.Barrier(4)
    held = threading.Barrier(4)
    outcomes: list[str] = []

    def claim() -> None:
        barrier.wait()
        try:
            with Folder(folder.url).lock():
                outcomes.append("held")
                held.wait()
        except OutputInUseError:
            outcomes.append("refused")
            held.wait()

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["held", "refused", "refused", "refused"]
    assert folder.top_level() == ()


@pytest.mark.parametrize("shard_format", ["hdf5", "parquet"])
def test_a_reader_fetches_only_what_it_needs(
    object_store: tuple[str, Proxy], tmp_path: Path, shard_format: ShardFormat
) -> None:
    url, proxy = object_store
    url = f"{url}/{shard_format}"
    columns = bilm_columns(2, width=256)
    sentences = [make_sentences([40] * 30, source=f"{n}.txt") for n in range(2)]
    local = write_store(Folder(tmp_path), sentences, columns=columns, shard_format=shard_format)
    write_store(Folder(url), sentences, columns=columns, shard_format=shard_format)
    size = local.shards[0].bytes
    assert size > 5_000_000
    proxy.requests.clear()
    store_there, store_here = FeatureStore.open(url), FeatureStore.open(tmp_path)
    for identifier in ("0.txt:2", "1.txt:17"):
        np.testing.assert_array_equal(store_there[identifier].layers(), store_here[identifier].layers())
    fetched = sum(request.sent for request in proxy.requests)
    if shard_format == "hdf5":
        assert fetched < size / 2, "a tenth of a shard's sentences must not fetch all of it"
    assert len(proxy.requests) < 60


def test_a_commit_asks_for_little_of_each_shard(object_store: tuple[str, Proxy]) -> None:
    url, proxy = object_store
    folder, columns = Folder(url), bilm_columns(2, width=64)
    sentences = [make_sentences([10] * 40, source=f"{n}.txt") for n in range(10)]
    plan = write_finished_shards(folder, sentences, columns=columns)
    proxy.requests.clear()
    commit(folder, plan)
    assert len([request for request in proxy.requests if "shards" in request.path]) < 10 * 10
    assert sum(request.sent for request in proxy.requests) < 10 * 300_000
    assert [features.id for features in FeatureStore.open(url)] == [s.id for shard in sentences for s in shard]


def test_the_status_of_a_remote_job_asks_once_for_each_receipt_and_for_many_at_once(
    object_store: tuple[str, Proxy], capsys: pytest.CaptureFixture[str]
) -> None:
    url, proxy = object_store
    folder, columns = Folder(url), bilm_columns(1, width=2)
    shards = [make_sentences([3], source=f"{n}.txt") for n in range(40)]
    write_finished_shards(folder, shards, columns=columns)
    folder.remove("receipts/00007.json")
    folder.write_bytes("receipts/00008.json", b"{}")
    proxy.reset()
    proxy.seconds = 0.05
    done = elmo(capsys, "status", url)
    assert done.code == 0 and f"{url}: not complete, 38/40 shards, 114/120 tokens" in done.out
    # Clients ask for the size of an object before its content.
    assert len(proxy.requests) < 2 * 39 + 20
    assert 5 < proxy.most_inside <= 32


def test_credentials_stand_nowhere(
    object_store: tuple[str, Proxy], tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    url, _ = object_store
    caplog.set_level("DEBUG", logger="pipeline")
    caplog.set_level("DEBUG", logger="jobs")
    fake_dump(write_corpus(tmp_path / "corpus", sentences=24), f"{url}/out")
    folder = Folder(f"{url}/out")
    printed = capfd.readouterr()
    texts = [folder.read_bytes(name).decode("latin-1") for name in folder.walk()]
    for text in [*texts, repr(folder), caplog.text, printed.out, printed.err, pickle.dumps(folder).decode("latin-1")]:
        assert "the-secret-key" not in text and "the-key-id" not in text


def test_a_model_on_an_object_store_is_fetched_once_and_again_when_it_has_changed(
    object_store: tuple[str, Proxy], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, proxy = object_store
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    corpus = write_corpus(tmp_path / "corpus", sentences=8)
    model = GOLDEN / "seeded" / "base"
    for name in ("options.json", "weights.hdf5"):
        Folder(f"{url}/model").write_bytes(name, (model / name).read_bytes())
    assert elmo(capsys, "dump", corpus, tmp_path / "expected", "--model", model).code == 0
    assert elmo(capsys, "dump", corpus, tmp_path / "out", "--model", f"{url}/model").code == 0
    assert lasting_files(tmp_path / "out") == lasting_files(tmp_path / "expected")
    fetches = [request for request in proxy.requests if request.method == "GET" and request.sent > 10_000]
    assert len(fetches) == 1

    Folder(f"{url}/model").write_bytes("options.json", (model / "options.json").read_bytes() + b"\n")
    assert elmo(capsys, "dump", corpus, tmp_path / "out", "--model", f"{url}/model").code == 0
    assert len(list((tmp_path / "cache").iterdir())) == 2
    done = elmo(capsys, "dump", corpus, tmp_path / "other", "--model", f"{url}/none")
    assert done.code == 2 and "no such file or folder" in done.err
