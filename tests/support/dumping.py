"""Dumps with the fake encoder: in this process, or in one of its own that kills itself at a chosen moment."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobs.run_dump import DumpOptions, run_dump
from jobs.runners import RunnerConfig
from pipeline.config import CorpusConfig, DumpConfig, EncodeConfig, StoreConfig
from pipeline.manifest import Manifest
from pipeline.storage import Folder
from support.fakes import FakeEncoderFactory
from support.paths import TESTS

# Each is called at least once a published file; together they are all the ways in which names come and go.
STEPS = ("replace", "link", "unlink", "rmdir")


def fake_dump(
    corpus: Path | list[str],
    output: Path | str,
    *,
    encoder: FakeEncoderFactory | None = None,
    corpus_config: CorpusConfig | None = None,
    encode: EncodeConfig | None = None,
    store: StoreConfig | None = None,
    workers: int | None = None,
    runner: RunnerConfig | None = None,
    **options: Any,
) -> Manifest:
    """A dump with small shards unless told otherwise."""
    return run_dump(
        [str(corpus)] if isinstance(corpus, Path) else corpus,
        str(output),
        encoder=encoder or FakeEncoderFactory(),
        config=DumpConfig(
            corpus=corpus_config or CorpusConfig(),
            encode=encode or EncodeConfig(batch_tokens=16),
            store=store or StoreConfig(shard_tokens=20),
        ),
        options=DumpOptions(runner=runner or RunnerConfig(workers=workers), **options),
    )


def write_corpus(folder: Path, sentences: int = 40) -> Path:
    """A corpus of two files, with a blank line, in a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [" ".join(f"w{n * 7 % (k + 3)}" for k in range(1 + n % 6)) for n in range(sentences)]
    lines[3] = ""
    middle = sentences // 2
    (folder / "a.txt").write_text("".join(f"{line}\n" for line in lines[:middle]), encoding="utf-8")
    (folder / "b.txt").write_text("".join(f"{line}\n" for line in lines[middle:]), encoding="utf-8")
    return folder


def lasting_files(output: Path) -> dict[str, str]:
    """Name and SHA-256 of every file but the receipts, which hold times."""
    return {
        path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(output.rglob("*"))
        if path.is_file() and path.parent.name != "receipts"
    }


def dump_killed_at(step: int, *, after: bool, corpus: Path, output: Path, shard_format: str) -> bool:
    """Runs a dump in a process that sends itself SIGKILL at its `step`-th change of a name; whether it came to that."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    arguments = [str(step), "after" if after else "before", str(corpus), str(output), shard_format]
    done = subprocess.run(
        [sys.executable, "-m", "support.dumping", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode == -signal.SIGKILL


def start_fake_dump(
    corpus: Path, output: Path | str, *, workers: int = 1, seconds: float = 0.0, runner: RunnerConfig | None = None
) -> subprocess.Popen[str]:
    """A dump by the command line's own main function, in a process of its own, with a slow fake encoder."""
    code = (
        "import jobs.dump, jobs.cli as cli, support.dumping as dumping, support.fakes as fakes\n"
        "from jobs.runners import RunnerConfig\n"
        f"encoder = fakes.FakeEncoderFactory(seconds={seconds})\n"
        "cli.elmo.main = lambda *_, **__: dumping.fake_dump(\n"
        f"    {[str(corpus)]!r}, {str(output)!r}, workers={workers}, encoder=encoder, runner={runner!r})\n"
        "cli.main([])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_receipts(output: Path | str) -> None:
    """Waits until a dump in another process has finished its first shard."""
    deadline = time.monotonic() + 120
    while not Folder(output).list("receipts"):
        assert time.monotonic() < deadline, "no shard was finished"
        time.sleep(0.05)


def _kill_at(step: int, after: bool) -> None:
    count = 0

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == step and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return function(*args, **kwargs)
            finally:
                if count == step and after:
                    os.kill(os.getpid(), signal.SIGKILL)

        return called

    for name in STEPS:
        setattr(os, name, deadly(getattr(os, name)))


if __name__ == "__main__":
    _kill_at(int(sys.argv[1]), sys.argv[2] == "after")
    fake_dump(Path(sys.argv[3]), sys.argv[4], store=StoreConfig(shard_tokens=20, shard_format=sys.argv[5]))  # type: ignore[arg-type]
