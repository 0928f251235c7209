"""Folders hold their promises on real disks, under real faults, and between real processes."""

import errno
import os
import pickle
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import ConfigError, OutputInUseError, StorageError
from pipeline.schema import LOCK
from pipeline.storage import Folder


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    return Folder(tmp_path / "out" if request.param == "local" else f"memory://{uuid.uuid4().hex}/out")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_files_are_written_read_listed_and_removed(folder: Folder) -> None:
    assert folder.list("shards") == []
    assert folder.top_level() == ()
    folder.write_bytes("shards/b.h5", b"second")
    folder.write_bytes("shards/a.h5", b"first")
    folder.write_bytes("plan.json", b"{}")
    folder.write_bytes("plan.json", b"{1}")
    assert folder.list("shards") == ["shards/a.h5", "shards/b.h5"]
    assert folder.top_level() == ("plan.json", "shards")
    assert folder.read_bytes("plan.json") == b"{1}"
    assert folder.size("shards/a.h5") == 5
    assert folder.exists("plan.json")
    assert not folder.exists("shards")
    assert not folder.exists("shards/c.h5")
    with folder.open("shards/b.h5") as file:
        file.seek(3)
        assert file.read() == b"ond"
    folder.remove("plan.json")
    folder.remove("plan.json")
    folder.remove_all("shards")
    folder.remove_all("shards")
    assert folder.list("shards") == []
    assert not folder.exists("plan.json")


def test_a_missing_file_is_named(folder: Folder) -> None:
    with pytest.raises(StorageError, match=r"cannot read .*out/plan\.json: "):
        folder.read_bytes("plan.json")
    with pytest.raises(StorageError, match=r"cannot read .*out/plan\.json: "):
        folder.size("plan.json")
    with pytest.raises(StorageError, match=r"cannot read .*out/plan\.json: "):
        folder.open("plan.json")


def test_only_the_first_creation_succeeds(folder: Folder) -> None:
    assert folder.create_bytes("plan.json", b"first")
    assert not folder.create_bytes("plan.json", b"second")
    assert folder.read_bytes("plan.json") == b"first"
    assert folder.top_level() == ("plan.json",)


def test_a_staged_file_counts_only_once_published(folder: Folder) -> None:
    with folder.staged("shards/00001.h5") as path:
        path.write_bytes(b"numbers")
        assert path.suffix == ".h5"
        assert folder.list("shards") == []
        folder.publish(path, "shards/00001-abcd.h5")
        assert folder.read_bytes("shards/00001-abcd.h5") == b"numbers"
    assert folder.list("shards") == ["shards/00001-abcd.h5"]
    with pytest.raises(RuntimeError), folder.staged("shards/00002.h5") as path:
        path.write_bytes(b"half")
        raise RuntimeError
    assert not path.exists()


def test_published_files_have_the_permissions_of_plain_ones(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    Folder(tmp_path).write_bytes("written", b"")
    assert stat.S_IMODE((tmp_path / "written").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_local_paths_are_given_for_local_folders_only(tmp_path: Path) -> None:
    assert Folder(tmp_path).local_path("a/b") == tmp_path / "a/b"
    assert Folder(f"file://{tmp_path}").local_path("a/b") == tmp_path / "a/b"
    assert Folder("memory://x").local_path("a/b") is None
    free = Folder(tmp_path / "not/there/yet").free_bytes()
    assert free is not None
    assert free > 0
    assert Folder("memory://x").free_bytes() is None


def test_a_folder_pickles(folder: Folder) -> None:
    folder.write_bytes("a", b"1")
    assert pickle.loads(pickle.dumps(folder)).read_bytes("a") == b"1"


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "", "a//b", "a\\b", "a\0b", "./a"])
def test_names_that_lead_outside_are_refused(folder: Folder, name: str) -> None:
    with pytest.raises(StorageError, match="not a relative name"):
        folder.read_bytes(name)


def test_an_unknown_scheme_is_a_setting_error() -> None:
    with pytest.raises(ConfigError, match="nonsense"):
        Folder("nonsense://bucket/out")


def test_a_full_disk_is_told_and_leaves_the_old_file(small_disk: Path) -> None:
    folder = Folder(small_disk / "out")
    folder.write_bytes("plan.json", b"old")
    for write in (folder.write_bytes, folder.create_bytes):
        with pytest.raises(StorageError, match=r"plan\.json: No space left on device; free some space") as caught:
            write("plan.json", bytes(2_000_000))
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.__cause__.errno == errno.ENOSPC
    assert folder.read_bytes("plan.json") == b"old"
    assert os.listdir(small_disk / "out") == ["plan.json"]


def test_a_file_over_the_size_limit_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    script = """if True:
        import resource, sys
        from pipeline.errors import StorageError
        from pipeline.storage import Folder
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        try:
            Folder(sys.argv[1]).write_bytes("shards/a.h5", bytes(20_000))
        except StorageError as error:
            print(error)
    """
    with start(script, tmp_path / "out") as process:
        assert "shards/a.h5: File too large" in line_of(process)
    assert list((tmp_path / "out/shards").iterdir()) == []


def test_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "plan.json").mkdir()
    folder = Folder(tmp_path)
    with pytest.raises(StorageError, match=r"cannot write .*plan\.json: Is a directory"):
        folder.write_bytes("plan.json", b"{}")
    with pytest.raises(StorageError, match=r"cannot read .*plan\.json: Is a directory"):
        folder.read_bytes("plan.json")
    assert folder.top_level() == ("plan.json",)
    assert os.listdir(tmp_path) == ["plan.json"]


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"mine")
    folder = Folder(tmp_path / "out")
    with pytest.raises(StorageError, match=r"cannot write .*shards/a: "):
        folder.write_bytes("shards/a", b"")
    with pytest.raises(StorageError, match=r"cannot list .*out/\.: Not a directory"):
        folder.top_level()
    with pytest.raises(StorageError, match=r"cannot lock .*: "), folder.lock():
        pass
    assert (tmp_path / "out").read_bytes() == b"mine"


def test_a_killed_writer_leaves_only_what_is_cleared_away(tmp_path: Path) -> None:
    script = """if True:
        import sys, time
        from pipeline.storage import Folder
        folder = Folder(sys.argv[1])
        with folder.staged("shards/00001.h5") as path, folder.staged("plan.json") as plan:
            path.write_bytes(b"half of it")
            plan.write_bytes(b"{")
            print("written", flush=True)
            time.sleep(60)
    """
    out = tmp_path / "out"
    with start(script, out) as process:
        assert line_of(process) == "written"
        process.send_signal(signal.SIGKILL)
    folder = Folder(out)
    folder.write_bytes("shards/00000.h5", b"whole")
    assert folder.list("shards") == ["shards/00000.h5"]
    assert folder.top_level() == ("shards",)
    assert len(os.listdir(out)) == len(os.listdir(out / "shards")) == 2
    folder.remove_stale()
    assert os.listdir(out) == ["shards"]
    assert os.listdir(out / "shards") == ["00000.h5"]


HOLD = """if True:
    import sys
    from pipeline.errors import OutputInUseError
    from pipeline.storage import Folder
    try:
        with Folder(sys.argv[1]).lock():
            print("held", flush=True)
            sys.stdin.readline()
    except OutputInUseError:
        print("refused", flush=True)
"""


def test_a_second_job_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with start(HOLD, tmp_path / "out") as first:
        assert line_of(first) == "held"
        held = rf"out is in use by process {first.pid} on .* since 20"
        with pytest.raises(OutputInUseError, match=held) as caught, Folder(tmp_path / "out").lock():
            pass
        assert "\n" not in str(caught.value)
        first.communicate("done\n")
    with Folder(tmp_path / "out").lock():
        pass


def test_the_lock_of_a_killed_job_is_taken_over(tmp_path: Path) -> None:
    with start(HOLD, tmp_path / "out") as first:
        assert line_of(first) == "held"
        first.send_signal(signal.SIGKILL)
    assert (tmp_path / "out" / LOCK).exists()
    with start(HOLD, tmp_path / "out") as second:
        assert line_of(second) == "held"
        second.communicate("done\n")


def test_of_many_jobs_at_once_one_is_admitted_at_a_time(tmp_path: Path) -> None:
    script = """if True:
        import os, sys
        from pathlib import Path
        from pipeline.errors import OutputInUseError
        from pipeline.storage import Folder
        alone = Path(sys.argv[2])
        for _ in range(200):
            try:
                with Folder(sys.argv[1]).lock():
                    alone.mkdir()  # fails if another is inside
                    alone.rmdir()
            except OutputInUseError:
                pass
        print("fine")
    """
    processes = [start(script, tmp_path / "out", tmp_path / "alone") for _ in range(4)]
    assert [process.communicate()[0] for process in processes] == ["fine\n"] * 4
    assert list(tmp_path.iterdir()) == []


def test_the_lock_removes_the_folder_only_if_it_is_left_empty(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    with folder.lock():
        assert (tmp_path / "out").is_dir()
    assert not (tmp_path / "out").exists()
    with folder.lock():
        folder.write_bytes("a", b"")
    assert os.listdir(tmp_path / "out") == ["a"]


def test_a_remote_claim_is_refused_to_others_until_it_is_released_or_taken_over() -> None:
    folder = Folder(f"memory://{uuid.uuid4().hex}/out")
    advice = rf"in use by process {os.getpid()} on .*; wait for it, or, if it is dead, .* with --take-over"
    with folder.lock():
        with pytest.raises(OutputInUseError, match=advice), folder.lock():
            pass
        with folder.lock(take_over=True):
            assert folder.list("locks") == ["locks/00002.json"]
            with pytest.raises(OutputInUseError, match=advice), folder.lock():
                pass
    with folder.lock():
        pass
    assert folder.list("locks") == []


def test_a_claim_can_be_left_to_a_job_that_outlives_its_process() -> None:
    folder = Folder(f"memory://{uuid.uuid4().hex}/out")
    with folder.lock() as claim:
        assert claim is not None
        claim.leave_to("2026-job-1")
    with pytest.raises(OutputInUseError, match="in use by job 2026-job-1, submitted by process"), folder.lock():
        pass
    with folder.lock(take_over=True):
        pass
    assert folder.list("locks") == []


def test_a_claim_made_between_two_steps_of_a_take_over_is_given_up() -> None:
    folder = Folder(f"memory://{uuid.uuid4().hex}/out")

    class Late(Folder):
        """Sees the folder as it was before another job claimed it and a third took it over."""

        def list(self, prefix: str) -> list[str]:
            if not folder.exists("locks/00002.json"):
                folder.create_bytes("locks/00002.json", b"{}")
                return []
            return super().list(prefix)

    with pytest.raises(OutputInUseError, match="in use by a job that has just started"), Late(folder.url).lock():
        pass
    assert folder.list("locks") == ["locks/00002.json"]


@pytest.mark.parametrize("url", ["ftp://me:secret@host/x", "memory://secret@bucket/x"])
def test_a_url_with_credentials_is_refused_without_repeating_them(url: str) -> None:
    with pytest.raises(ConfigError, match="must not hold") as refused:
        Folder(url)
    assert "secret" not in str(refused.value)
