import numpy as np
import pytest
from scipy.special import expit, softmax

from calspline.evaluation.predictions import HINT, belong_together, check_predictions, grouping_hint


def games(seed=0, n_games=60, size=20, noise=0.02):
    rng = np.random.default_rng(seed)
    game = np.repeat(np.arange(n_games), size)
    u = 1.5 * rng.normal(size=n_games)
    return expit(u[game] + noise * rng.normal(size=len(game))), (rng.random(n_games) < expit(u))[game], game


def test_snapshots_of_games_are_seen_in_their_order():
    p, won, _ = games()
    assert belong_together(p, won)
    mixed = np.random.default_rng(0).permutation(len(p))
    assert not belong_together(p[mixed], won[mixed])


def test_repeated_rows_are_seen_in_any_order():
    p, won, _ = games(noise=0.0)
    mixed = np.random.default_rng(0).permutation(len(p))
    assert belong_together(p[mixed], won[mixed])


@pytest.mark.parametrize("order", ["as drawn", "by score", "by label", "by label and score"])
@pytest.mark.parametrize("digits", [1, 2, 3, 15])
def test_independent_rows_are_not(order, digits):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        u = 2 * rng.normal(size=2000)
        p, y = np.round(expit(u), digits), rng.random(2000) < expit(0.4 * u + np.sin(2 * u))
        keys = {"by score": [p], "by label": [y], "by label and score": [p, y]}
        at = np.lexsort(keys[order]) if order in keys else np.arange(2000)
        assert not belong_together(p[at], y[at])


def test_a_sentence_is_said_unless_groups_are_known():
    p, won, game = games()
    assert grouping_hint(check_predictions(won, p)) == HINT
    assert grouping_hint(check_predictions(won, p, groups=game)) == ""
    assert "groups=" in HINT
    q = softmax(np.column_stack([np.log(p), np.log1p(-p), np.full(len(p), -3.0)]), axis=1)
    assert grouping_hint(check_predictions(1 - won.astype(int), q)) == HINT


def test_few_rows_and_one_outcome_say_nothing():
    p, won, _ = games()
    assert not belong_together(p[:10], won[:10])
    assert not belong_together(p, np.ones(len(p), dtype=bool))
