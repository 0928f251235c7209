"""`elmo evaluate` and `elmo models`."""

from pathlib import Path

import pytest

from elmo_model.pretraining.evaluation import carried_perplexity, perplexity
from elmo_model.pretraining.model_files import ModelCard, read_card, read_language_model, write_language_model
from elmo_model.shipped import DEFAULT_MODEL, model_folder, shipped_models
from support.cli import elmo
from support.pretraining import TRAINING, read_lines, small_trainer

HELDOUT = TRAINING / "heldout.txt"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    trainer = small_trainer(read_lines(TRAINING / "train.txt"))
    folder = tmp_path / "model"
    write_language_model(
        trainer.model,
        folder,
        vocabulary=trainer.vocabulary,
        options=trainer.options,
        card=ModelCard(name="model", tokenizer="english (spacy 1.0)"),
    )
    return folder


@pytest.mark.parametrize("batch_size", ["1", "64"])
def test_each_direction_and_their_mean_are_printed(
    capsys: pytest.CaptureFixture[str], model: Path, batch_size: str
) -> None:
    result = elmo(capsys, "evaluate", model, HELDOUT, "--batch-size", batch_size)
    assert result.code == 0, result.err
    printed = {line.split()[0]: float(line.split()[1]) for line in result.out.splitlines()[:3]}
    language_model, vocabulary = read_language_model(model)
    wanted = perplexity(language_model, read_lines(HELDOUT), vocabulary=vocabulary)
    assert printed == pytest.approx({**wanted.by_direction, "mean": wanted.mean}, rel=1e-3)


def test_another_tokenizer_than_the_models_is_pointed_out(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    result = elmo(capsys, "evaluate", model, HELDOUT)
    assert "trained on english (spacy 1.0) tokens, this text is read as whitespace" in result.err


def test_carried_state_is_the_original_programs_figure(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    result = elmo(capsys, "evaluate", model, HELDOUT, "--carried-state", "--batch-size", "2")
    assert result.code == 0, result.err
    language_model, vocabulary = read_language_model(model)
    wanted = carried_perplexity(language_model, read_lines(HELDOUT), vocabulary=vocabulary, batch_size=2)
    assert f"perplexity {wanted:.3f} " in result.out


def test_text_without_sentences_is_one_line(capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    result = elmo(capsys, "evaluate", model, tmp_path / "empty.txt")
    assert result.code == 2
    assert "no sentences to evaluate on" in result.err


def test_shipped_models_are_whole_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    names = shipped_models()
    assert DEFAULT_MODEL in names
    listed = elmo(capsys, "models")
    assert listed.code == 0, listed.err
    for name in names:
        folder = model_folder(name)
        assert sum(path.stat().st_size for path in folder.iterdir()) < 20e6
        card = read_card(folder)
        assert card is not None
        assert card.licence and card.data and card.perplexity
        assert all(source["licence"] and source["attribution"] for source in card.data)
        language_model, vocabulary = read_language_model(folder)
        assert len(vocabulary) == len(language_model.softmax.bias)
        assert name in listed.out
        assert f"mean {card.perplexity['test']['mean']:.1f}" in listed.out


def test_a_shipped_model_predicts_better_than_chance(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("He went into the house and closed the door .\nThe cells of the body need energy .\n")
    result = elmo(capsys, "evaluate", DEFAULT_MODEL, text)
    assert result.code == 0, result.err
    assert float(result.out.split()[1]) < 300


def test_a_folder_goes_before_a_shipped_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert model_folder(DEFAULT_MODEL).name == DEFAULT_MODEL
    (tmp_path / DEFAULT_MODEL).mkdir()
    assert model_folder(DEFAULT_MODEL) == Path(DEFAULT_MODEL)
