from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import binom, entropy
from sklearn.base import BaseEstimator
from sklearn.metrics import log_loss

from calspline import SigmoidCalibrator, SplineCalibrator, calibration_learning_curve


class Sure(BaseEstimator):
    """Says 1/2 (or ``p``) whatever it is fitted on."""

    def __init__(self, p=0.5):
        self.p = p

    def fit(self, scores, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, scores):
        return np.tile([1 - self.p, self.p], (len(scores), 1))


class Rate(Sure):
    """The observed rate: one parameter, so its excess log-loss is 1 / (2 n)."""

    def fit(self, scores, y, sample_weight=None):
        super().fit(scores, y)
        self.p = np.average(y == self.classes_[1], weights=sample_weight)
        return self


@pytest.fixture(scope="module")
def sample(simulated):
    scores, y, _ = simulated(3000, seed=5)
    return scores, y


def test_a_calibrator_that_learns_nothing_has_a_flat_curve_and_needs_a_few_events_only(
    sample,
):
    curve = calibration_learning_curve(Sure(), *sample, n_repeats=1)
    np.testing.assert_allclose(curve.log_loss, np.log(2))
    assert curve.rate == 0.0
    share = min(sample[1].mean(), 1 - sample[1].mean())
    assert (
        binom.sf(9, curve.enough, share) >= 0.95 > binom.sf(9, curve.enough - 1, share)
    )
    assert f"About {curve.enough} rows" in curve.verdict
    later = calibration_learning_curve(Sure(), *sample, n_repeats=1, sizes=[100, 1000])
    assert "100 rows are enough" in later.verdict


def rows_at_rate(rate, n, seed):
    """Exactly that rate, or nearly, and scores that are too sure of themselves."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) < round(rate * n)
    u = np.log(rate / (1 - rate)) + rng.normal(np.where(y, 1.0, 0.0))
    return expit(1.6 * u), y


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_rare_events_need_rows_that_hold_some(seed):
    """At 0.07%, 870 rows were said to be enough: more than half of such samples hold no event."""
    scores, y = rows_at_rate(0.0007, 40_000, seed)
    curve = calibration_learning_curve(SplineCalibrator(), scores, y, n_repeats=1)
    assert binom.sf(9, curve.enough, y.mean()) >= 0.95
    assert curve.events == pytest.approx(curve.enough * y.mean(), abs=0.5)
    assert curve.events >= 10
    assert f"({float(f'{curve.events:.2g}'):.0f} events)" in curve.verdict
    base = entropy([y.mean(), 1 - y.mean()])
    assert curve.gain == pytest.approx(0.001 * base / np.log(2), rel=0.05)
    loss = curve.log_loss[-1]
    assert f"{loss:.6f}" in str(curve)  # four significant digits of 0.005


@pytest.mark.slow
def test_a_rate_of_thirty_per_cent_needs_about_what_an_absolute_gain_does():
    rows = rows_at_rate(0.3, 3000, 0)
    curve, absolute = (
        calibration_learning_curve(SplineCalibrator(), *rows, n_repeats=2, gain=g)
        for g in (None, 1e-3)
    )
    assert curve.gain == 0.00088
    assert absolute.gain == 1e-3
    assert absolute.enough == int(np.ceil(absolute.rate / 1e-3))
    assert absolute.enough <= curve.enough <= 1.15 * absolute.enough


def test_the_rarest_class_is_named_whichever_it_is():
    scores, y = rows_at_rate(0.1, 400, 0)
    curve = calibration_learning_curve(Rate(), 1 - scores, ~y, n_repeats=1)
    assert "non-events)" in curve.verdict
    assert curve.gain == calibration_learning_curve(Rate(), scores, y, n_repeats=1).gain
    three = np.where(y, "B", np.where(np.arange(400) % 2, "a", "c"))
    p = np.random.default_rng(0).dirichlet(np.ones(3), 400)
    curve = calibration_learning_curve(SplineCalibrator(), p, three, n_repeats=1)
    assert "of class B)" in curve.verdict
    assert curve.gain == 1e-3
    assert curve.to_dict()["rarest"] == "of class B"


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
def test_weights_count_in_the_default_gain():
    """Nine negatives in ten were thrown away; weights bring them back."""
    scores, y = rows_at_rate(0.1, 1000, 0)
    weight = np.where(y, 1.0, 11.0)
    curve = calibration_learning_curve(
        Rate(), scores, y, sample_weight=weight, n_repeats=1
    )
    assert curve.gain == pytest.approx(0.001 * entropy([0.01, 0.99], base=2), rel=0.01)


@pytest.mark.thorough
def test_the_rate_of_a_fit_with_two_parameters_is_one():
    """Theory: the excess log-loss of a fit with d parameters is d / (2 n)."""
    rates = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        u = rng.normal(0, 1.5, 6000)
        y = rng.random(6000) < 1 / (1 + np.exp(-(0.3 + 0.6 * u)))
        line = SplineCalibrator(scale="logit", n_knots=2)
        rates.append(
            calibration_learning_curve(line, 1 / (1 + np.exp(-u)), y, n_repeats=3).rate
        )
    assert 0.6 < np.mean(rates) < 1.4


@pytest.mark.slow
def test_enough_is_where_the_rate_falls_below_the_gain(sample):
    curve = calibration_learning_curve(SplineCalibrator(), *sample, n_repeats=2)
    assert curve.enough == int(np.ceil(curve.rate / curve.gain)) > 100
    stricter = calibration_learning_curve(
        SplineCalibrator(), *sample, n_repeats=2, gain=1e-4
    )
    assert stricter.enough >= 9 * curve.enough
    assert "would help" in stricter.verdict
    np.testing.assert_allclose(curve.gain_left * curve.sizes, curve.rate)


@pytest.mark.slow
def test_the_log_loss_at_the_largest_size_lies_in_its_interval_around_the_truth(
    simulated,
):
    scores, y, p = simulated(3000, seed=5)
    curve = calibration_learning_curve(SplineCalibrator(), scores, y, n_repeats=2)
    truth = -np.mean(np.where(y, np.log(p), np.log(1 - p)))
    assert curve.interval[-1, 0] < truth < curve.interval[-1, 1]
    assert curve.log_loss[0] > curve.log_loss[-1]
    assert curve.uncalibrated > curve.log_loss[-1]


def test_it_repeats_and_does_not_touch_the_random_state(sample):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two = (
        calibration_learning_curve(SplineCalibrator(), *sample, n_repeats=1)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.log_loss, two.log_loss)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    other = calibration_learning_curve(
        SplineCalibrator(), *sample, n_repeats=1, random_state=1
    )
    assert not np.array_equal(one.log_loss, other.log_loss)


def test_weights_and_rows_of_weight_zero(sample):
    scores, y = sample
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    there = weight > 0
    some = calibration_learning_curve(
        Rate(), scores, y, sample_weight=weight, n_repeats=1
    )
    fewer = calibration_learning_curve(
        Rate(), scores[there], y[there], sample_weight=weight[there], n_repeats=1
    )
    np.testing.assert_allclose(some.log_loss, fewer.log_loss)


@pytest.mark.slow
def test_more_classes_named_columns_and_margins(simulated):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 3)) * 2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = np.array(["a", "b", "c"])[
        (
            rng.random((600, 1)) < np.cumsum(p**0.5 / (p**0.5).sum(1, keepdims=True), 1)
        ).argmax(1)
    ]
    curve = calibration_learning_curve(SplineCalibrator(), p, y, n_repeats=1)
    assert curve.log_loss[-1] < curve.uncalibrated
    frame = pd.DataFrame(p, columns=["a", "b", "c"])[["c", "a", "b"]]
    swapped = calibration_learning_curve(SplineCalibrator(), frame, y, n_repeats=1)
    np.testing.assert_allclose(swapped.log_loss, curve.log_loss, atol=1e-9)
    margins = calibration_learning_curve(SplineCalibrator(), z, y, n_repeats=1)
    assert np.isnan(margins.uncalibrated)


def test_the_table_and_the_dict(sample):
    curve = calibration_learning_curve(
        SplineCalibrator(), *sample, sizes=[50, 500, 2000], n_repeats=1
    )
    text = str(curve)
    assert "2,000" in text
    assert "95% interval" in text
    assert curve.to_dict()["sizes"] == [50, 500, 2000]
    assert "<td" in curve._repr_html_()
    assert curve.to_frame()["rows"].tolist() == [50, 500, 2000]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gain": 0.0}, "gain must be"),
        ({"cv": 1}, "cv must be"),
        ({"n_repeats": 0}, "n_repeats must be"),
        ({"level": 1.0}, "level must be"),
        ({"sizes": [10, 5]}, "sizes must be sorted"),
        ({"sizes": [10, 5000]}, "sizes must be whole numbers between 4 .* and 2400"),
        ({"sizes": [10.5, 100]}, "sizes must be whole numbers"),
    ],
)
def test_wrong_options_are_errors(sample, options, message):
    with pytest.raises(ValueError, match=message):
        calibration_learning_curve(SplineCalibrator(), *sample, **options)


def test_too_few_rows_of_a_class_are_an_error():
    with pytest.raises(
        ValueError, match="at least 5 rows of each class, as cv is 5; the rarest has 1"
    ):
        calibration_learning_curve(
            SplineCalibrator(), np.linspace(0, 1, 30), [1] + [0] * 29
        )


def games(n_games=60, size=12, seed=0):
    rng = np.random.default_rng(seed)
    game = np.repeat(np.arange(n_games), size)
    u = rng.normal(size=n_games)[game]
    return expit(2 * u), (rng.random(n_games)[game] < expit(u)).astype(int), game


class Told(SplineCalibrator):
    """Remembers the groups that it is fitted on."""

    seen: ClassVar[list] = []

    def fit(self, scores, y, sample_weight=None, *, groups=None):
        Told.seen.append((len(np.unique(groups)), len(y)))
        return super().fit(scores, y, sample_weight, groups=groups)


def test_the_curve_is_over_whole_groups():
    scores, y, game = games()
    Told.seen.clear()
    curve = calibration_learning_curve(
        Told(), scores, y, groups=game, n_repeats=2, sizes=[8, 20, 48]
    )
    assert curve.sizes.tolist() == [8, 20, 48]
    assert curve.events == round(curve.enough * min(y.sum(), len(y) - y.sum()) / 60)
    assert curve.enough >= 10
    assert {n for n, _ in Told.seen} == {8, 20, 48}
    assert all(rows == 12 * n for n, rows in Told.seen)
    assert "groups" in str(curve)
    assert "groups" in curve.verdict
    assert "rows" not in str(curve)


@pytest.mark.slow
def test_intervals_over_groups_are_wider():
    scores, y, game = games()
    by_group = calibration_learning_curve(
        SplineCalibrator(), scores, y, groups=game, n_repeats=2
    )
    by_row = calibration_learning_curve(SplineCalibrator(), scores, y, n_repeats=2)
    assert np.diff(by_group.interval)[-1] > 2 * np.diff(by_row.interval)[-1]
    assert by_row.unit == "rows"


def test_a_calibrator_without_groups_has_a_curve_over_groups_too():
    scores, y, game = games()
    curve = calibration_learning_curve(
        SigmoidCalibrator(), scores, y, groups=game, n_repeats=1
    )
    assert curve.sizes[-1] == 48


def test_few_groups_are_refused():
    scores, y, game = games(8)
    with pytest.raises(
        ValueError, match="groups must be at least 10, two for each fold; got 8"
    ):
        calibration_learning_curve(SplineCalibrator(), scores, y, groups=game)


def test_the_names_of_columns_count():
    # Before, the loss of the scores as they are was that of swapped columns.
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 600)
    y = (rng.random(600) < p).astype(int)
    straight, swapped = (
        pd.DataFrame({"0": 1 - p, "1": p}),
        pd.DataFrame({"1": p, "0": 1 - p}),
    )
    curves = [
        calibration_learning_curve(SplineCalibrator(), scores, y, cv=2, n_repeats=2)
        for scores in (straight, swapped)
    ]
    assert curves[0].uncalibrated == pytest.approx(log_loss(y, p))
    assert curves[1].uncalibrated == curves[0].uncalibrated
    np.testing.assert_array_equal(curves[1].log_loss, curves[0].log_loss)
