"""Pretraining against the original program: data, losses, gradients, states, updates and test perplexity."""

import h5py
import numpy as np
import pytest
import torch

from elmo_model.pretraining.config import TrainingOptions
from elmo_model.pretraining.evaluation import carried_perplexity
from elmo_model.pretraining.gradients import window_gradients
from elmo_model.pretraining.language_model import window_tensors
from elmo_model.pretraining.sampler import log_expected_count
from elmo_model.pretraining.softmax import Softmax
from elmo_model.pretraining.streams import SentenceSource, WindowStream
from elmo_model.pretraining.trainer import Trainer
from elmo_model.token_encoder import CharacterTokenEncoder
from elmo_model.vocabulary import Vocabulary
from support.pretraining import TRAINING, VOCABULARY, corpus_of, golden_model, golden_options, read_golden, read_lines

RUNS = ("golden_clip10", "golden_clip_low", "golden_noskip_l1")


def streams_in_order(rows: int, steps: int) -> list[WindowStream]:
    sentences = corpus_of(read_lines(TRAINING / "train.txt"))
    return [
        WindowStream(SentenceSource(sentences, seed=None), rows=rows, steps=steps, reverse=reverse)
        for reverse in (False, True)
    ]


def test_windows_are_those_of_the_original_program() -> None:
    vocabulary = Vocabulary.read(VOCABULARY)
    with h5py.File(TRAINING / "golden_clip10.hdf5") as file:
        encoder = golden_model(file).bilm.token_encoder
    assert isinstance(encoder, CharacterTokenEncoder)
    streams = streams_in_order(3, 6)
    with h5py.File(TRAINING / "batches.hdf5") as batches:
        for number in range(len(batches)):
            for stream, suffix in zip(streams, ("", "_reverse"), strict=True):
                window = stream.next_window()
                golden = {
                    name: batches[f"{number}/{name}{suffix}"][()]
                    for name in ("token_ids", "tokens_characters", "next_token_id")
                }
                ids = [[vocabulary.id_of(token) for token in row] for row in window.inputs]
                targets = [[vocabulary.id_of(token) for token in row] for row in window.targets]
                characters = np.stack([encoder.token_ids(row) for row in window.inputs])
                np.testing.assert_array_equal(ids, golden["token_ids"])
                np.testing.assert_array_equal(targets, golden["next_token_id"])
                np.testing.assert_array_equal(characters - 1, golden["tokens_characters"])


@pytest.mark.parametrize("run", RUNS)
def test_losses_gradients_and_states_of_the_first_step(run: str) -> None:
    with h5py.File(TRAINING / f"{run}.hdf5") as file:
        model = golden_model(file).train()
        windows = [stream.next_window() for stream in streams_in_order(3, 6)]
        tensors = window_tensors(windows, encoder=model.bilm.token_encoder, vocabulary=Vocabulary.read(VOCABULARY))
        result = window_gradients(
            model,
            tensors,
            model.zero_states(3),
            loss=lambda _, top, targets: model.softmax.losses(top, targets).mean(),
            scale=6,
            generators=[torch.Generator(), torch.Generator()],
        )
        expected = read_golden(file["gradients/step0"], model)
        names = {parameter: name for name, parameter in model.named_parameters()}
        np.testing.assert_allclose(result.losses, file["steps"][0, 1:3], atol=1e-6)
        assert len(result.gradients) == len(expected)
        for parameter, gradient in result.gradients.items():
            np.testing.assert_allclose(gradient, expected[names[parameter]], atol=1e-5, err_msg=names[parameter])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("run", RUNS)
def test_four_steps_give_the_weights_accumulators_and_states_of_the_original(run: str, dtype: torch.dtype) -> None:
    # In float32 the states of the last step, with cells at their clip, amplify rounding; the plain definition does too.
    state_tolerance = 5e-5 if dtype == torch.float32 else 1e-5
    with h5py.File(TRAINING / f"{run}.hdf5") as file:
        model = golden_model(file).to(dtype)
        model.product_dtype = dtype
        trainer = Trainer(
            model,
            vocabulary=Vocabulary.read(VOCABULARY),
            options=TrainingOptions.from_mapping(golden_options(file)),
            sentences=corpus_of(read_lines(TRAINING / "train.txt")),
            seed=0,
        )
        trainer.streams = streams_in_order(3, 6)
        for step, (total, forward, backward, norm) in enumerate(file["steps"]):
            report = trainer.step(progress=0.0)
            np.testing.assert_allclose(report.losses, [forward, backward], atol=1e-5)
            assert report.loss == pytest.approx(total, abs=1e-5)
            assert report.gradient_norm == pytest.approx(norm, abs=1e-4)
            states = [part for layers in trainer.states for (state,) in layers for part in state]
            for number, state in enumerate(states):
                np.testing.assert_allclose(state, file[f"final_state/step{step}/{number}"], atol=state_tolerance)
            if step in (0, 3):
                weights = read_golden(file[f"weights/after_step{step}"], model)
                accumulators = read_golden(file[f"adagrad/after_step{step}"], model)
                for name, parameter in model.named_parameters():
                    kept = trainer.optimizer.state[parameter]["sum"]
                    np.testing.assert_allclose(parameter.detach(), weights[name], atol=1e-5, err_msg=name)
                    np.testing.assert_allclose(kept, accumulators[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("batch_size", [1, 2])
def test_carried_perplexity_is_that_of_the_original_test_program(run: str, batch_size: int) -> None:
    heldout = read_lines(TRAINING / "heldout.txt")
    with h5py.File(TRAINING / f"{run}.hdf5") as file:
        expected = file[f"heldout_perplexity/batch_size_{batch_size}"][()]
        got = carried_perplexity(
            golden_model(file), heldout, vocabulary=Vocabulary.read(VOCABULARY), batch_size=batch_size
        )
    assert got == pytest.approx(float(expected), rel=1e-5)


def test_sampled_softmax_is_that_of_tensorflow() -> None:
    with h5py.File(TRAINING / "sampled_softmax.hdf5") as file:
        values = {name: torch.from_numpy(file[name][()]) for name in file}
    words, width = values["W"].shape
    softmax = Softmax(n_words=words, width=width)
    with torch.no_grad():
        softmax.weight.copy_(values["W"])
        softmax.bias.copy_(values["b"])
    labels, sampled = values["labels"].squeeze(1).long(), values["sampled"].long()
    expected = [log_expected_count(ids.numpy(), n_words=words, tries=12) for ids in (labels, sampled)]
    np.testing.assert_allclose(np.exp(expected[0]), values["true_expected_count"].squeeze(1), rtol=1e-5)
    np.testing.assert_allclose(np.exp(expected[1]), values["sampled_expected_count"], rtol=1e-5)
    for row, loss in enumerate(values["losses"]):
        got = softmax.sampled_loss(
            values["inputs"][row : row + 1],
            labels[row : row + 1],
            sampled,
            log_expected_targets=torch.from_numpy(expected[0][row : row + 1]),
            log_expected_candidates=torch.from_numpy(expected[1]),
            product_dtype=torch.float32,
        )
        assert got.item() == pytest.approx(loss.item(), abs=1e-5)
