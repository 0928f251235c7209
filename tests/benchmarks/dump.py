"""Dumps a folder of text with a model, both formats, killed and resumed: speed, the encoder's share, memory, size.

    python tests/benchmarks/dump.py CORPUS MODEL [--tokens N] [--layers all]

Each dump runs in a process of its own. It is killed once at about half, resumed, and verified; a second, undisturbed
one into another folder gives the figures and must have the same shards.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from pipeline.config import CorpusConfig
from pipeline.corpus import corpus_tokenizer, read_sentences
from pipeline.inputs import list_inputs
from pipeline.manifest import Manifest
from pipeline.receipts import read_receipt
from pipeline.storage import Folder


def sample(corpus: str, tokens: int, into: Path) -> int:
    """The first sentences of a corpus, up to a number of tokens, one a line; how many there are."""
    config = CorpusConfig()
    tokenizer = corpus_tokenizer(config)
    done = 0
    with into.open("w", encoding="utf-8") as out:
        for file in list_inputs([corpus], config):
            for sentence in read_sentences(file, config, tokenizer=tokenizer, counts=Counter()):
                if done >= tokens:
                    return done
                out.write(" ".join(sentence.tokens) + "\n")
                done += len(sentence.tokens)
    return done


def dump(corpus: Path, output: Path, *options: str) -> tuple[float, float]:
    """One dump from start to end; its seconds, and the peak of its resident memory in MB."""
    before = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "jobs", "dump", str(corpus), str(output), *options])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise click.ClickException(f"the dump ended with {process.returncode}")
    return time.monotonic() - before, usage.ru_maxrss * 1024 / 1e6


def kill_at_half(corpus: Path, output: Path, shards: int, *options: str) -> int:
    """A dump that is sent SIGKILL when half of its shards have receipts; how many those are then."""
    process = subprocess.Popen([sys.executable, "-m", "jobs", "dump", str(corpus), str(output), *options])
    while process.poll() is None and len(Folder(output).list("receipts")) < shards // 2:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return len(Folder(output).list("receipts"))


@click.command()
@click.argument("corpus")
@click.argument("model")
@click.option("--tokens", default=200_000, show_default=True, help="Of the corpus to dump.")
@click.option("--layers", default="all", show_default=True)
@click.option("--dtype", default="float32", show_default=True)
@click.option("--scratch", type=click.Path(path_type=Path), help="Where to write; a temporary folder by default.")
def main(corpus: str, model: str, tokens: int, layers: str, dtype: str, scratch: Path | None) -> None:
    """Print a table of both formats."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        text = Path(folder, "corpus.txt")
        counted = sample(corpus, tokens, text)
        rows = []
        for shard_format in ("hdf5", "parquet"):
            options = ["--model", model, "--format", shard_format, "--layers", layers, "--dtype", dtype]
            whole, broken = Path(folder, shard_format), Path(folder, f"{shard_format}-killed")
            seconds, megabytes = dump(text, whole, *options)
            manifest = Manifest.read(Folder(whole))
            receipts = [read_receipt(Folder(whole), number) for number in range(len(manifest.shards))]
            encoding, working = sum(r.encode_seconds for r in receipts), sum(r.seconds for r in receipts)
            killed = kill_at_half(text, broken, len(receipts), *options)
            dump(text, broken, *options)
            same = (whole / "manifest.json").read_bytes() == (broken / "manifest.json").read_bytes()
            verified = (
                subprocess.run([sys.executable, "-m", "jobs", "verify", str(broken)], check=False).returncode == 0
            )
            size = sum(shard.bytes for shard in manifest.shards)
            rows.append(
                (shard_format, seconds, counted / encoding, encoding / working, megabytes, size, killed, same, verified)
            )
        click.echo(f"{counted:,} tokens; {receipts[0].runtime}")
        click.echo(
            "format   seconds  encoder tokens/s  encoder's share  peak MB  store MB  killed after  same  verified"
        )
        for name, seconds, speed, share, megabytes, size, killed, same, verified in rows:
            click.echo(
                f"{name:8} {seconds:7.1f}  {speed:16,.0f}  {share:15.1%}  {megabytes:7.0f}  {size / 1e6:8.1f}  "
                f"{killed:12}  {same!s:5} {verified}"
            )


if __name__ == "__main__":
    main()
