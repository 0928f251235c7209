"""What a dump costs and touches: memory, model loads, what travels to workers, the network."""

import pickle
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import cloudpickle
import pytest

from elmo_model.shipped import model_folder
from elmo_model.weights import read_bilm
from jobs.encoders.bilm import BiLmEncoderFactory
from pipeline.config import EncodeConfig, StoreConfig
from pipeline.derivations import select_columns
from pipeline.encoding import EncoderFactory
from pipeline.reader import FeatureStore
from pipeline.transforms import DumpJob, EncodeShards, encode_and_commit
from support.dumping import fake_dump, write_corpus
from support.fakes import FakeEncoderFactory
from support.paths import GOLDEN
from support.programs import output_of

BASE = GOLDEN / "seeded" / "base"
LIBRARIES_AND_BATCH = 500e6

PEAK = """
import sys
from pathlib import Path
import numpy as np
import support.fakes as fakes
from pipeline.config import EncodeConfig, StoreConfig
from pipeline.schema import Column
from support.dumping import fake_dump
from support.memory import peak_bytes

WIDTH = 512
fakes.COLUMNS = tuple(Column(name=f"layer_{n}", width=WIDTH, layer=n, direction="none") for n in range(5))

def encode(self, sentences):
    rows = sum(map(len, sentences))
    return fakes.Encoded(columns={name: np.full((rows, WIDTH), 0.5, np.float32) for name in self.columns})

fakes.FakeEncoder.encode = encode
fake_dump(
    Path(sys.argv[1]), sys.argv[2],
    encode=EncodeConfig(batch_tokens=512), store=StoreConfig(shard_tokens=2000, shard_format=sys.argv[3]),
)
print(peak_bytes())
"""

DUMP = """
import sys
from jobs.cli import main
from support.memory import peak_bytes

try:
    main(["dump", *sys.argv[1:]])
except SystemExit as end:
    assert end.code in (None, 0)
print(peak_bytes())
"""


@pytest.mark.parametrize("shard_format", ["hdf5", "parquet"])
def test_ten_times_the_corpus_takes_no_more_memory(shard_format: str, tmp_path: Path) -> None:
    peaks = []
    for times in (1, 10):
        corpus = tmp_path / f"{times}.txt"
        corpus.write_text("one two three four five six seven eight nine ten\n" * 300 * times, encoding="utf-8")
        peaks.append(int(output_of(PEAK, corpus, tmp_path / f"out{times}", shard_format)))
    written = sum(path.stat().st_size for path in (tmp_path / "out10/shards").iterdir())
    assert written > 300e6
    assert peaks[1] <= 1.1 * peaks[0], f"{peaks[0]} bytes for one, {peaks[1]} for ten times the corpus"


@pytest.mark.parametrize("shard_format", ["hdf5", "parquet"])
def test_a_dump_takes_little_more_than_the_model_and_the_libraries(shard_format: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    # All lengths up to 100, so that products over nearly all numbers of rows are met.
    lines = (" ".join(f"word{(n * k) % 999}" for k in range(1, 2 + n % 100)) for n in range(500))
    corpus.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    check_peak(corpus, tmp_path / "out", "--format", shard_format)


def test_a_protein_of_35_000_residues_takes_no_more(tmp_path: Path) -> None:
    corpus = tmp_path / "titin.fasta"
    corpus.write_text(">titin\n" + "MTTQAPTFTQPLQSVVVLEGSTATFEAHISGFPVPEVSWFRDGQVISTSTL\n" * 687, encoding="utf-8")
    check_peak(corpus, tmp_path / "out", "--layers", "0,1", "--pool", "mean")
    store = FeatureStore.open(tmp_path / "out")
    assert (len(store["titin"].tokens), store["titin"].column("forward_1_mean").shape) == (687 * 51, (128,))


def check_peak(corpus: Path, output: Path, *options: str) -> None:
    """Dumps with the shipped model in a process of its own, and looks at its peak."""
    *_, printed = output_of(DUMP, corpus, output, "--model", "mini-en", *options).split()
    weights = sum(weights.numel() * 4 for weights in read_bilm(model_folder("mini-en")).parameters())
    peak = int(printed)
    assert peak <= weights + LIBRARIES_AND_BATCH, f"{peak / 1e6:.0f} MB for a model of {weights / 1e6:.0f} MB"


def test_a_process_loads_the_model_once_for_all_shards(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    for workers in (1, 2):
        log = tmp_path / f"loads{workers}"
        manifest = fake_dump(
            corpus, tmp_path / f"out{workers}", encoder=FakeEncoderFactory(load_log=str(log)), workers=workers
        )
        assert len(manifest.shards) >= 5
        assert 1 <= len(log.read_text(encoding="utf-8").splitlines()) <= workers


def some_job(encoder: EncoderFactory) -> DumpJob:
    return DumpJob(
        output="somewhere",
        encoder=encoder,
        selection=select_columns(encoder.describe().columns, "all"),
        encode=EncodeConfig(),
        store=StoreConfig(),
        max_failures=0,
    )


def test_what_is_shipped_to_workers_is_small_and_holds_no_weights() -> None:
    job = some_job(BiLmEncoderFactory(model=str(BASE)))
    for pickler in (pickle, cloudpickle):
        assert len(pickler.dumps(job)) < 100_000
        assert pickler.loads(pickler.dumps(job)) == job
    assert len(cloudpickle.dumps(EncodeShards(job))) < 100_000


def test_features_cross_no_shuffle() -> None:
    pipeline = beam.Pipeline(runner="apache_beam.runners.portability.fn_api_runner.FnApiRunner")
    encode_and_commit(pipeline, some_job(FakeEncoderFactory()), range(3))
    proto = pipeline.to_runner_api()
    encode = next(t for t in proto.components.transforms.values() if t.unique_name.endswith("EncodeShards/Encode"))
    (out,) = encode.outputs.values()
    coder = proto.components.coders[proto.components.pcollections[out].coder_id]
    assert coder.spec.urn == "beam:coder:varint:v1", "only shard numbers leave the encoding step"


NO_NETWORK = """
import socket, sys
real = socket.socket.connect
def connect(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise SystemExit(f"connected to {address}")
    return real(self, address)
socket.socket.connect = connect
socket.getaddrinfo = lambda host, *a, **k: sys.exit(f"looked up {host}")
from jobs.cli import main
main(sys.argv[1:])
"""


def test_no_command_reaches_for_the_network(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    out = tmp_path / "out"
    output_of(NO_NETWORK, "dump", corpus, out, "--model", BASE)
    for command in ("status", "inspect", "verify"):
        output_of(NO_NETWORK, command, out)


def test_the_job_runs_from_a_plain_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from jobs.encoders.bilm import BiLmEncoderFactory\n"
        "from jobs.run_dump import run_dump\n"
        "from pipeline.config import DumpConfig\n"
        "if __name__ == '__main__':\n"
        "    encoder = BiLmEncoderFactory(model=sys.argv[3])\n"
        "    manifest = run_dump([sys.argv[1]], sys.argv[2], encoder=encoder, config=DumpConfig())\n"
        "    print(manifest.sentences)\n",
        encoding="utf-8",
    )
    corpus = write_corpus(tmp_path / "corpus")
    done = subprocess.run(
        [sys.executable, str(script), str(corpus), str(tmp_path / "out"), str(BASE)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.strip() == "40"


def test_without_beam_the_dump_says_what_to_install_and_the_rest_works(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    fake_dump(corpus, tmp_path / "out")
    blocked = "import sys; sys.modules['apache_beam'] = None; from jobs.cli import main; main(sys.argv[1:])"
    for command in ("status", "inspect", "verify"):
        output_of(blocked, command, tmp_path / "out")
    arguments = ["dump", str(corpus), str(tmp_path / "other"), "--model", str(BASE)]
    done = subprocess.run([sys.executable, "-c", blocked, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'elmo-features[beam]'" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "other").exists()
