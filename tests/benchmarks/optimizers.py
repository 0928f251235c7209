"""Adagrad as published against Adam with a cosine schedule: the loss each reaches in the same time, as a picture.

    python tests/benchmarks/optimizers.py CORPUS OUT --vocab VOCAB [--minutes 30] [--device cpu]

Both train the `mini` shape at the same time on the same text, in processes of their own. Runs that OUT holds already
are only drawn again, into OUT/optimizers.png.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from elmo_model.pretraining.config import preset_path
from elmo_model.pretraining.session import METRICS_FILE

PUBLISHED = {"optimizer": "adagrad", "learning_rate": 0.2, "schedule": "constant", "warmup_steps": 0}
RUNS: dict[str, dict[str, Any]] = {"adagrad": PUBLISHED, "adam": {}}


def start(name: str, arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    config = arguments.out / f"{name}.json"
    options = json.loads(Path(preset_path("mini")).read_text(encoding="utf-8"))
    config.write_text(json.dumps(options | RUNS[name]), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "jobs",
        "pretrain",
        arguments.corpus,
        str(arguments.out / name),
        "--config",
        str(config),
    ]
    command += ["--vocab", arguments.vocab, "--hours", str(arguments.minutes / 60), "--device", arguments.device]
    threads = max(1, (os.cpu_count() or 1) // len(RUNS))
    return subprocess.Popen([*command, "--precision", "bfloat16"], env=os.environ | {"OMP_NUM_THREADS": str(threads)})


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / METRICS_FILE).read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == "train"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("out", type=Path)
    parser.add_argument("--vocab")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    missing = [name for name in RUNS if not (arguments.out / name / METRICS_FILE).is_file()]
    for process in [start(name, arguments) for name in missing]:
        if process.wait():
            sys.exit(f"a run ended with code {process.returncode}")
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name in RUNS:
        found = rows(arguments.out / name)
        axes.plot([row["seconds"] for row in found], [row["sampled_loss"] for row in found], label=name.capitalize())
        last = found[-1]
        print(
            f"{name}: sampled loss {last['sampled_loss']:.3f} after {last['seconds']:.0f} s, {last['tokens']:,} tokens"
        )
    axes.set_xlabel("seconds")
    axes.set_ylabel("sampled loss (nats)")
    axes.set_ylim(top=8)
    axes.legend()
    figure.savefig(arguments.out / "optimizers.png", dpi=120)


if __name__ == "__main__":
    main()
