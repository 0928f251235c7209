"""Reading and writing a feature store, each figure as a ratio to a rival measured in the same run.

    python tests/benchmarks/reader.py [--scale 0.1] [--folder DIR]

At scale 1 it needs 5 GB of disk and some minutes. Every figure is the least processor time of several rounds in
which the rivals take turns, so that other load on the machine falls on all of them.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pipeline.config import StoreConfig
from pipeline.index import build_index, write_index
from pipeline.manifest import Manifest, ShardEntry
from pipeline.reader import FeatureStore
from pipeline.receipts import file_sha256
from pipeline.records import Sentence
from pipeline.schema import INDEX, MANIFEST, Column, shard_name
from pipeline.shards import create_shard
from pipeline.storage import Folder
from support.stores import bilm_columns, make_sentences, write_store

ROUNDS = 5
SENTENCE_TOKENS = 20
Array = NDArray[Any]


def best(*actions: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """The shortest processor time of each action in seconds, the actions taking turns.

    With the page cache warm reading takes no other, and what else runs on the machine disturbs it least. The wait for
    the disk in writing is left out.
    """
    times = [[0.0] * rounds for _ in actions]
    for turn in range(rounds):
        for number, action in enumerate(actions):
            started = time.process_time()
            action()
            times[number][turn] = time.process_time() - started
    return [min(taken) for taken in times]


def show(what: str, value: str, target: str = "") -> None:
    print(f"{what:<78} {value:>22} {target:>12}", flush=True)


def noise(columns: tuple[Column, ...], tokens: int) -> Callable[[Sentence, Column], Array]:
    """Float16 vectors of sentences of equal length, cheap to make and different for each sentence."""
    pool = np.random.default_rng(0).normal(size=(4 * tokens, columns[0].width)).astype(np.float16)
    return lambda sentence, column: (
        pool[sentence.line % tokens : sentence.line % tokens + tokens] + np.float16(sentence.line % 97)
    )


def shuffled_epoch(folder: Path, scale: float) -> None:
    """A full-size float16 store against gathering the same rows from numpy memmaps."""
    columns = bilm_columns(2, width=512)
    count = max(200, int(5000 * scale))
    shards = [make_sentences([SENTENCE_TOKENS] * (count // 5), source=f"{number}.txt") for number in range(5)]
    write_store(
        Folder(folder / "epoch"), shards, columns=columns, dtype="float16", vectors=noise(columns, SENTENCE_TOKENS)
    )
    store = FeatureStore.open(folder / "epoch")
    for column in columns:
        np.concatenate(list(store.column(column.name))).tofile(folder / column.name)
    maps = [np.memmap(folder / column.name, np.float16, "r").reshape(-1, 512) for column in columns]
    order = np.random.default_rng(1).permutation(len(store)).tolist()

    def by_store_columns() -> None:
        for position in order:
            features = store.at(position)
            for column in columns:
                features.column(column.name)

    def by_store_layers() -> None:
        for position in order:
            store.at(position).layers()

    def rows(position: int) -> list[Array]:
        return [np.array(values[position * SENTENCE_TOKENS : (position + 1) * SENTENCE_TOKENS]) for values in maps]

    def by_memmap_columns() -> None:
        for position in order:
            rows(position)

    def by_memmap_layers() -> None:
        for position in order:
            token, *states = rows(position)
            pairs = [(token, token), *zip(states[::2], states[1::2], strict=True)]
            np.stack([np.concatenate(pair, axis=1) for pair in pairs])

    megabytes = sum(values.nbytes for values in maps) / 1e6
    read = best(by_store_columns, by_memmap_columns, by_store_layers, by_memmap_layers)
    show(f"shuffled epoch, {megabytes:.0f} MB, columns: store", f"{megabytes / read[0]:,.0f} MB/s")
    show("the same from numpy memmaps", f"{megabytes / read[1]:,.0f} MB/s")
    show("store / memmap", f"{read[1] / read[0]:.0%}", ">= 80%")
    show("published layers: store / memmap", f"{read[3] / read[2]:.0%}", ">= 80%")


def against_dataset_per_sentence(folder: Path, scale: float) -> None:
    """A store against the layout of one HDF5 dataset a sentence."""
    columns = bilm_columns(2, width=32)
    count = int(200_000 * scale)
    sentences = make_sentences([5] * count)
    values = {column.name: np.ones((5 * count, 32), np.float32) for column in columns}
    path = folder / "packed.h5"
    runs = np.array([times_of_batches(path, sentences, columns, values) for _ in range(3)]).min(axis=0)
    tenth = len(runs) // 10
    taken = runs[-tenth:].sum() / runs[:tenth].sum()
    raw = sum(array.nbytes for array in values.values())
    texts = sum(
        len(s.id.encode()) + len(s.source) + len(str(s.text).encode()) + sum(len(t.encode()) for t in s.tokens)
        for s in sentences
    )
    show(f"{count:,} sentences of 5 tokens, width 32: last tenth / first tenth of writing", f"{taken:.2f}", "<= 1.5")
    show("file / (vectors + texts)", f"{path.stat().st_size / (raw + texts):.3f}", "<= 1.1")
    published = np.ones((3, 5, 64), np.float32)
    started = time.process_time()
    with h5py.File(folder / "datasets.h5", "w") as file:
        for position in range(count):
            file.create_dataset(str(position), data=published)
    wrote = time.process_time() - started
    write_store(Folder(folder / "packed"), [sentences], columns=columns, vectors=lambda s, c: published[0, :, :32])
    order = np.random.default_rng(1).permutation(count)[: max(200, count // 20)].tolist()

    def by_dataset() -> None:
        # Opening is part of what every worker pays.
        with h5py.File(folder / "datasets.h5", "r") as file:
            for position in order:
                file[str(position)][:]

    def by_store() -> None:
        store = FeatureStore.open(folder / "packed")
        for position in order:
            store.at(position).layers()

    def by_column() -> None:
        store = FeatureStore.open(folder / "packed")
        for position in order:
            store.at(position).column("forward_1")

    def whole_by_dataset() -> None:
        with h5py.File(folder / "datasets.h5", "r") as file:
            for position in order:
                file[str(position)][:]

    def whole_by_store() -> None:
        for column in columns:
            list(FeatureStore.open(folder / "packed").column(column.name))

    read = best(by_store, by_dataset, by_column)
    show(
        f"{len(order):,} random sentences of {count:,}, all layers: store", f"{read[0] / len(order) * 1e6:.1f} us each"
    )
    show("the same, one dataset a sentence", f"{read[1] / len(order) * 1e6:.1f} us each")
    show("store / datasets, all layers", f"{read[1] / read[0]:.1f} x", ">= 20 x")
    show("store / datasets, one column", f"{read[1] / read[2]:.1f} x")
    whole = best(whole_by_store, whole_by_dataset, rounds=3)
    show("store / datasets, whole store at once", f"{whole[1] * count / len(order) / whole[0]:.0f} x", ">= 20 x")
    show("one dataset a sentence: writing alone", f"{wrote / count * 1e6:.1f} us each")


def times_of_batches(
    path: Path, sentences: list[Sentence], columns: tuple[Column, ...], values: dict[str, Array]
) -> list[float]:
    """Writes a shard in batches of 100 sentences; the time of each batch."""
    times = []
    with create_shard(path, shard_format="hdf5", columns=columns, dtype="float32", sentences=sentences) as writer:
        for start in range(0, len(sentences), 100):
            stop = min(start + 100, len(sentences))
            piece = {name: array[5 * start : 5 * stop] for name, array in values.items()}
            started = time.process_time()
            writer.write(range(start, stop), piece)
            times.append(time.process_time() - started)
    return times


def opening(folder: Path, scale: float) -> None:
    """Opening a store of a million sentences and finding one of them, in a process of its own."""
    count, shards = int(1_000_000 * scale), 1000
    columns = bilm_columns(2, width=512)
    ids = [[f"{shard}.txt:{line}" for line in range(count // shards)] for shard in range(shards)]
    target = Folder(folder / "million")
    with target.staged(INDEX) as path:
        write_index(path, build_index(ids, sentences=count))
        digest, size = file_sha256(path), path.stat().st_size
        target.publish(path, INDEX)
    sentences = make_sentences([1] * (count // shards), source="0.txt", first_line=0)
    vectors = {column.name: np.ones((len(sentences), 512), np.float32) for column in columns}
    with target.staged(shard_name(0, "", "hdf5")) as path:
        with create_shard(path, shard_format="hdf5", columns=columns, dtype="float32", sentences=sentences) as writer:
            writer.write(range(len(sentences)), vectors)
        shard_digest, shard_size = file_sha256(path), path.stat().st_size
        target.publish(path, shard_name(0, shard_digest, "hdf5"))
    entries = [
        ShardEntry(
            file=shard_name(number, shard_digest, "hdf5"),
            sha256=shard_digest,
            bytes=shard_size,
            sentences=len(sentences),
            tokens=len(sentences),
            failed=0,
        )
        for number in range(shards)
    ]
    manifest = Manifest(
        fingerprint="0" * 64,
        settings={"store": vars(StoreConfig())},
        shard_format="hdf5",
        dtype="float32",
        columns=columns,
        shards=tuple(entries),
        sentences=count,
        tokens=count,
        failed=0,
        counts={},
        index_sha256=digest,
        index_bytes=size,
    )
    target.write_bytes(MANIFEST, manifest.to_bytes())
    script = (
        "import sys, time, h5py, psutil\n"
        "from pipeline.reader import FeatureStore\n"
        "before, started = psutil.Process().memory_info().rss, time.process_time()\n"
        "store = FeatureStore.open(sys.argv[1]); store['0.txt:7'].layers()\n"
        "print(time.process_time() - started, psutil.Process().memory_info().rss - before)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script, target.url], check=True, capture_output=True, text=True)
        for _ in range(ROUNDS)
    ]
    figures = [tuple(map(float, run.stdout.split())) for run in runs]
    show(
        f"opening {count:,} sentences in {shards} shards and reading one", f"{min(figures)[0] * 1e3:.0f} ms", "< 100 ms"
    )
    show("memory it takes", f"{max(memory for _, memory in figures) / 1e6:.0f} MB", "< 50 MB")


def formats(folder: Path, scale: float) -> None:
    """Writing, reading in order and reading at random, HDF5 against Parquet."""
    columns = bilm_columns(2, width=512)
    count = max(100, int(2000 * scale))
    sentences = make_sentences([SENTENCE_TOKENS] * count)
    for dtype in ("float32", "float16"):
        numbers = np.random.default_rng(0).normal(size=(count * SENTENCE_TOKENS, 512)).astype(dtype)
        megabytes = numbers.nbytes * len(columns) / 1e6
        writers = [writing(folder, sentences, columns, numbers, shard_format) for shard_format in ("hdf5", "parquet")]
        wrote = best(*writers, rounds=3)
        stores = []
        for shard_format in ("hdf5", "parquet"):
            target = folder / f"{shard_format}-{dtype}"
            write_store(
                Folder(target),
                [sentences],
                columns=columns,
                shard_format=shard_format,
                dtype=dtype,
                vectors=lambda s, c: numbers[(s.line - 1) * SENTENCE_TOKENS : s.line * SENTENCE_TOKENS],  # noqa: B023
            )
            stores.append(FeatureStore.open(target))
        read = best(*([lambda store=store: drain(store, columns) for store in stores]), rounds=3)
        order = np.random.default_rng(1).permutation(count)[:50].tolist()
        random = best(
            *([lambda store=store, order=order: [store.at(p).layers() for p in order] for store in stores]), rounds=3
        )
        for number, shard_format in enumerate(("hdf5", "parquet")):
            show(
                f"{dtype} {shard_format}: write, read in order (MB/s), one sentence at random",
                f"{megabytes / wrote[number]:,.0f} {megabytes / read[number]:,.0f} {random[number] / 50 * 1e3:.2f} ms",
            )


def writing(
    folder: Path, sentences: list[Sentence], columns: tuple[Column, ...], numbers: Array, shard_format: str
) -> Callable[[], None]:
    def write() -> None:
        with create_shard(
            folder / f"written.{shard_format}",
            shard_format=shard_format,  # type: ignore[arg-type]
            columns=columns,
            dtype=numbers.dtype.name,  # type: ignore[arg-type]
            sentences=sentences,
        ) as writer:
            writer.write(range(len(sentences)), {column.name: numbers for column in columns})

    return write


def drain(store: FeatureStore, columns: tuple[Column, ...]) -> None:
    for features in store:
        for column in columns:
            features.column(column.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the stated size of every figure")
    parser.add_argument("--folder", help="where the data goes; a temporary folder by default")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"some of: {', '.join(PARTS)}")
    options = parser.parse_args()
    for part in options.parts:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            PARTS[part](Path(folder), options.scale)


PARTS: dict[str, Callable[[Path, float], None]] = {
    "epoch": shuffled_epoch,
    "datasets": against_dataset_per_sentence,
    "opening": opening,
    "formats": formats,
}

if __name__ == "__main__":
    main()
