import pytest
import torch
from torch import Tensor

from elmo_model.bilm import build_bilm, run_layers
from elmo_model.errors import VocabularyError
from elmo_model.options import ElmoOptions
from support.bilms import random_bilm, tiny_options

BATCH_SIZES = [2, 2, 1]


def inputs() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(5, 6, generator=generator) for _ in range(2)]


@pytest.mark.parametrize("skip", [False, True])
def test_residuals_join_from_the_second_layer_on_and_stay_out_of_the_state(skip: bool) -> None:
    bilm = random_bilm(tiny_options(n_layers=3))
    rows, states = inputs(), bilm.zero_states(2)
    expected = rows
    found = run_layers(bilm.plain_layers(), rows, BATCH_SIZES, states, use_skip_connections=skip)
    for depth, (outputs, after) in enumerate(found):
        hidden, final = bilm.plain_layers()[depth](expected, BATCH_SIZES, states[depth])
        expected = [h + x for h, x in zip(hidden, expected, strict=True)] if skip and depth else hidden
        for direction in (0, 1):
            assert torch.equal(outputs[direction], expected[direction])
            assert torch.equal(after[direction].hidden, final[direction].hidden)
            assert torch.equal(after[direction].hidden[0], hidden[direction][4])


def test_fewer_layers_stop_early() -> None:
    bilm = random_bilm()
    found = list(
        run_layers(bilm.plain_layers()[:1], inputs(), BATCH_SIZES, bilm.zero_states(2)[:1], use_skip_connections=True)
    )
    assert len(found) == 1


def test_dropout_acts_on_each_layers_input_and_so_on_the_residual() -> None:
    bilm = random_bilm()
    seen: list[Tensor] = []

    def double(rows: Tensor) -> Tensor:
        seen.append(rows)
        return 2 * rows

    (low, _), (top, _) = run_layers(
        bilm.plain_layers(), inputs(), BATCH_SIZES, bilm.zero_states(2), use_skip_connections=True, dropout=double
    )
    assert [torch.equal(a, b) for a, b in zip(seen, [*inputs(), *low], strict=True)] == [True] * 4
    hidden, _ = bilm.plain_layers()[1]([2 * rows for rows in low], BATCH_SIZES, bilm.zero_states(2)[1])
    assert torch.equal(top[0], hidden[0] + 2 * low[0])


def test_single_directions_can_be_asked_for() -> None:
    bilm = random_bilm()
    backward = bilm.plain_layers(["backward"])
    states = bilm.zero_states(2, ["backward"])
    alone = list(run_layers(backward, inputs()[1:], BATCH_SIZES, states, use_skip_connections=True))
    both = list(run_layers(bilm.plain_layers(), inputs(), BATCH_SIZES, bilm.zero_states(2), use_skip_connections=True))
    for (one, _), (two, _) in zip(alone, both, strict=True):
        assert torch.equal(one[0], two[1])


def test_options_of_a_model_are_those_it_was_built_from() -> None:
    for options in (tiny_options(), {**tiny_options(n_layers=3), "bidirectional": False}):
        parsed = ElmoOptions.from_mapping(options)
        assert build_bilm(parsed).options == parsed


def test_a_model_that_reads_words_needs_them() -> None:
    options = tiny_options()
    del options["char_cnn"]
    with pytest.raises(VocabularyError, match="a vocabulary file is required"):
        build_bilm(ElmoOptions.from_mapping(options))
    bilm = random_bilm(options, words=["<S>", "</S>", "<UNK>"])
    assert bilm.options == ElmoOptions.from_mapping(options)
