"""The candidates of the sampled softmax."""

import json

import numpy as np
import pytest

from elmo_model.pretraining.sampler import LogUniformSampler, log_expected_count


def test_candidates_are_unique_words_of_the_vocabulary() -> None:
    sampler = LogUniformSampler(n_words=50, n_candidates=40, seed=3)
    for _ in range(20):
        candidates = sampler.draw()
        assert len(set(candidates.ids.tolist())) == len(candidates.ids) == 40
        assert candidates.ids.min() >= 0 and candidates.ids.max() < 50
        assert candidates.tries >= 40


def test_words_are_drawn_with_log_uniform_frequency() -> None:
    sampler = LogUniformSampler(n_words=20, n_candidates=1, seed=0)
    drawn = np.array([sampler.draw().ids[0] for _ in range(20_000)])
    observed = np.bincount(drawn, minlength=20) / len(drawn)
    ranks = np.arange(20)
    wanted = (np.log(ranks + 2) - np.log(ranks + 1)) / np.log(21)
    np.testing.assert_allclose(wanted.sum(), 1.0)
    # Five standard errors of the largest share.
    np.testing.assert_allclose(observed, wanted, atol=5 * np.sqrt(0.25 / len(drawn)))


def test_expected_counts_are_those_of_the_draws() -> None:
    sampler = LogUniformSampler(n_words=30, n_candidates=10, seed=5)
    draws = [sampler.draw() for _ in range(4_000)]
    observed = np.bincount(np.concatenate([draw.ids for draw in draws]), minlength=30) / len(draws)
    ids = np.arange(30)
    expected = np.mean([np.exp(log_expected_count(ids, n_words=30, tries=draw.tries)) for draw in draws], axis=0)
    np.testing.assert_allclose(observed, expected, atol=0.05)


def test_a_saved_sampler_goes_on_exactly() -> None:
    sampler = LogUniformSampler(n_words=50, n_candidates=9, seed=3)
    sampler.draw()
    saved = json.dumps(sampler.state())
    wanted = [sampler.draw().ids.tolist() for _ in range(3)]
    other = LogUniformSampler(n_words=50, n_candidates=9, seed=4)
    other.restore(json.loads(saved))
    assert [other.draw().ids.tolist() for _ in range(3)] == wanted


@pytest.mark.parametrize("candidates", [0, 8, 9])
def test_as_many_candidates_as_words_are_refused(candidates: int) -> None:
    with pytest.raises(ValueError, match="unique candidates"):
        LogUniformSampler(n_words=8, n_candidates=candidates, seed=0)
