"""`elmo pretrain`: from a folder of text to a model that `elmo dump` takes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from elmo_model.extractor import Extractor
from elmo_model.weights import read_bilm
from pipeline.reader import FeatureStore
from support.cli import elmo
from support.pretraining import TRAINING

LINES = [f"the cat number {number} saw {'a dog and ' * (number % 4)}a bird ." for number in range(120)]


def options_file(folder: Path, **changes: Any) -> Path:
    mapping = json.loads((TRAINING / "options.json").read_text())
    for name in ("n_train_tokens", "n_tokens_vocab"):
        del mapping[name]
    path = folder / "tiny-options.json"
    path.write_text(json.dumps({**mapping, "n_epochs": 2, **changes}))
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("\n".join(LINES[:60]) + "\n")
    (folder / "deep" / "b.txt").write_text("\n".join(LINES[60:]) + "\n")
    return folder


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "jobs", *map(str, arguments)]


def trained_weights(folder: Path) -> dict[str, Any]:
    """All weights of the last checkpoint."""
    (*_, last) = sorted((folder / "checkpoints").iterdir())
    tensors = load_file(last / "tensors.safetensors")
    return {name: tensor for name, tensor in tensors.items() if name.startswith("model/")}


def test_the_written_folder_is_dumped_unchanged_and_evaluated(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path
) -> None:
    options = options_file(tmp_path)
    model, heldout, store = tmp_path / "model", tmp_path / "heldout.txt", tmp_path / "store"
    heldout.write_text("the cat saw a unicorn .\na bird\n")
    trained = elmo(capsys, "pretrain", corpus, model, "--config", options, "--valid", heldout)
    assert trained.code == 0, trained.err
    tokens = sum(len(line.split()) for line in LINES)
    assert f"120 sentences, {tokens:,} tokens; 0.00% are unknown" in trained.err
    steps = 2 * (tokens // (3 * 6))
    assert f"training for {steps:,} steps" in trained.err
    assert f"step {steps:,}" in trained.err
    assert (model / "curve.png").read_bytes().startswith(b"\x89PNG")

    evaluated = elmo(capsys, "evaluate", model, heldout)
    assert evaluated.code == 0, evaluated.err
    mean = json.loads((model / "card.json").read_text())["perplexity"]["valid"]["mean"]
    assert f"mean       {mean:.3f}" in evaluated.out
    assert "10 predictions in 2 sentences; 12.50% of the words are unknown" in " ".join(evaluated.out.split())

    dumped = elmo(capsys, "dump", heldout, store, "--model", model)
    assert dumped.code == 0, dumped.err
    columns = ("token", "forward_2", "backward_2")
    expected = Extractor(read_bilm(model), columns=columns).encode([["a", "bird"]]).columns
    for name in columns:
        np.testing.assert_allclose(
            FeatureStore.open(str(store))["heldout.txt:2"].column(name), expected[name], rtol=0, atol=1e-6
        )


def test_an_empty_file_is_named_and_a_stale_token_count_does_not_count(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path
) -> None:
    (corpus / "empty.txt").touch()
    options = options_file(tmp_path, n_train_tokens=768_648_884)
    result = elmo(capsys, "pretrain", corpus, tmp_path / "model", "--config", options, "--epochs", "1")
    assert result.code == 0, result.err
    assert "warning: empty.txt holds no sentences" in result.err
    assert "n_train_tokens 768,648,884" in result.err
    written = json.loads((tmp_path / "model" / "options.json").read_text())
    assert written["n_train_tokens"] == sum(len(line.split()) for line in LINES)


def test_a_vocabulary_out_of_order_is_pointed_out(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path
) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("<S>\n</S>\n<UNK>\nnumber\nthe\ncat\na\n")
    options = options_file(tmp_path)
    result = elmo(
        capsys, "pretrain", corpus, tmp_path / "model", "--config", options, "--vocab", vocabulary, "--steps", "2"
    )
    assert result.code == 0, result.err
    assert "'a' on line 7 is more frequent than 'cat' on line 6" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("<S>\n</S>\nthe\n", "lacks <UNK>"),
        ("<S>\n</S>\n<UNK>\na\nb\nc\n\nd\n", "line 7 is blank"),
        ("<S>\n</S>\nx\n<UNK>\na\nb\nc\nd\nx\n", "lines 3 and 9"),
    ],
)
def test_a_bad_vocabulary_is_one_line(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path, words: str, message: str
) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text(words)
    options = options_file(tmp_path)
    result = elmo(capsys, "pretrain", corpus, tmp_path / "model", "--config", options, "--vocab", vocabulary)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_a_corpus_without_words_or_below_one_batch_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    empty, short = tmp_path / "empty", tmp_path / "short.txt"
    empty.mkdir()
    (empty / "a.txt").write_text("\n\n")
    short.write_text("too few words\n")
    options = options_file(tmp_path)
    for corpus, message in ((empty, "the corpus is empty"), (short, "3 tokens, and one batch takes 18")):
        result = elmo(capsys, "pretrain", corpus, tmp_path / f"model-{corpus.name}", "--config", options)
        assert result.code == 2
        assert message in result.err


def test_a_folder_with_checkpoints_needs_resume_and_the_same_options(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    arguments = ("pretrain", corpus, model, "--config", options_file(tmp_path), "--steps", "4")
    refused = elmo(capsys, *arguments, "--resume")
    assert (refused.code, "holds no checkpoint" in refused.err) == (2, True)
    assert elmo(capsys, *arguments).code == 0
    before = trained_weights(model)
    again = elmo(capsys, *arguments)
    assert (again.code, "add --resume" in again.err) == (2, True)
    options_file(tmp_path, dropout=0.3)
    other = elmo(capsys, *arguments, "--resume")
    assert (other.code, "dropout was 0.0, now 0.3" in other.err) == (2, True)
    after = trained_weights(model)
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_terminated_run_checkpoints_and_ends_where_a_straight_run_does(corpus: Path, tmp_path: Path) -> None:
    options = options_file(tmp_path, dropout=0.1, sample_softmax=True, n_negative_samples_batch=8)
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    arguments = ("pretrain", corpus, "--config", options, "--steps", "300")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command(*arguments, straight), check=True, capture_output=True, timeout=300, env=environment)

    process = subprocess.Popen(command(*arguments, stopped), stderr=subprocess.PIPE, text=True, env=environment)
    record = stopped / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not record.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 143
    assert process.stderr is not None
    assert "the same command with --resume goes on" in process.stderr.read()
    (checkpoint,) = (stopped / "checkpoints").iterdir()
    assert 50 <= int(checkpoint.name.removeprefix("step-")) < 300

    subprocess.run(
        command(*arguments, stopped, "--resume"), check=True, capture_output=True, timeout=300, env=environment
    )
    wanted, got = trained_weights(straight), trained_weights(stopped)
    assert sorted(checkpoint.name for checkpoint in (stopped / "checkpoints").iterdir())[-1] == "step-00000300"
    for name, weights in wanted.items():
        np.testing.assert_allclose(got[name], weights, rtol=0, atol=1e-6, err_msg=name)


def test_two_processes_equal_one_with_the_joint_batch(corpus: Path, tmp_path: Path) -> None:
    sampled = {"sample_softmax": True, "n_negative_samples_batch": 8}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    joint = options_file(tmp_path, batch_size=6, **sampled)
    arguments = ("--steps", "20", "--config")
    subprocess.run(
        command("pretrain", corpus, tmp_path / "one", *arguments, joint),
        check=True, capture_output=True, timeout=300, env=environment,
    )  # fmt: skip
    halves = options_file(tmp_path, batch_size=3, **sampled)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run(
        [*launcher, *command("pretrain", corpus, tmp_path / "two", *arguments, halves)[1:]],
        check=True, capture_output=True, timeout=300, env=environment,
    )  # fmt: skip
    one, two = trained_weights(tmp_path / "one"), trained_weights(tmp_path / "two")
    assert one.keys() == two.keys()
    for name, weights in one.items():
        np.testing.assert_allclose(two[name], weights, rtol=0, atol=1e-5, err_msg=name)
    rows = [
        [json.loads(line)["tokens"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    ]
    assert rows[0] == rows[1]


def test_fine_tuning_keeps_words_and_announces_new_ones(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path
) -> None:
    base, tuned, domain = tmp_path / "base", tmp_path / "tuned", tmp_path / "domain.txt"
    options = options_file(tmp_path)
    assert elmo(capsys, "pretrain", corpus, base, "--config", options, "--steps", "2").code == 0
    domain.write_text("a dog sold the shares\n" * 50)
    vocabulary = tmp_path / "domain-vocab.txt"
    counted = elmo(capsys, "vocab", domain, vocabulary)
    assert counted.code == 0, counted.err
    result = elmo(
        capsys, "pretrain", domain, tuned, "--init", base, "--config", options, "--vocab", vocabulary, "--steps", "3"
    )
    assert result.code == 0, result.err
    assert "6 words of the vocabulary keep their softmax rows, 2 are new" in result.err
    assert (tuned / "vocab.txt").read_text() == vocabulary.read_text()
