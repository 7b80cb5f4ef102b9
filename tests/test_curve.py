import json
import pickle

import numpy as np
import pytest

from calspline import CalibrationCurve, SplineCalibrator
from calspline.maps.posterior import Posterior
from calspline.transforms import Transform

OPTIONS = [
    {"scale": "logit"},
    {"scale": "asinh_logit"},
    {"scale": "compact_logit", "epsilon": 0.02},
    {"scale": "identity"},
    {"loss": "brier"},
    {"penalty": "ridge", "scale": "identity", "n_knots": 12},
]


@pytest.fixture(params=OPTIONS, ids=str)
def curve(request, simulated):
    p, y, _ = simulated(1500)
    return SplineCalibrator(monotone=True, **request.param).fit(p, y).curves_[0]


def line(slope=1.0, intercept=0.0, **kwargs):
    """A curve whose log-odds are ``intercept + slope * x``, with three breaks."""
    breaks = np.array([-1.0, 0.5, 2.0])
    coefficients = np.zeros((4, 4))
    coefficients[2] = slope
    coefficients[3] = intercept + slope * np.array([-1.0, -1.0, 0.5, 2.0])
    return CalibrationCurve(Transform("logit"), breaks, coefficients, **kwargs)


def test_a_line_through_the_log_odds_gives_the_score_back():
    p = np.linspace(0.001, 0.999, 500)
    np.testing.assert_allclose(line()(p), p, rtol=1e-12)
    assert line().is_monotone
    assert not line(-1.0).is_monotone


def test_each_piece_is_its_polynomial():
    rng = np.random.default_rng(0)
    breaks, c = np.array([0.0, 0.25, 0.3, 1.0]), rng.normal(size=(4, 5))
    c[:2, [0, 4]] = 0.0
    curve = CalibrationCurve(
        Transform("identity"),
        breaks,
        c,
        origin=-2.0,
        unit=4.0,
        link="identity",
        clip=(1e-9, 1 - 1e-9),
    )
    scores = np.linspace(-3.0, 3.0, 997)
    z = (scores + 2.0) / 4.0
    piece = (z[:, None] >= breaks).sum(axis=1)
    t = z - np.array([0.0, 0.0, 0.25, 0.3, 1.0])[piece]
    expected = sum(c[m, piece] * t ** (3 - m) for m in range(4))
    np.testing.assert_allclose(
        curve(scores), np.clip(expected, 1e-9, 1 - 1e-9), atol=1e-12
    )


def test_breaks_too_close_for_the_index_are_found_by_search():
    close = np.array([-1.0, 0.5, 0.5 + 1e-6, 2.0])
    coefficients = np.zeros((4, 5))
    coefficients[2], coefficients[3] = 1.0, np.array([-1.0, -1.0, 0.5, 0.5 + 1e-6, 2.0])
    p = np.linspace(0.01, 0.99, 300)
    np.testing.assert_allclose(
        CalibrationCurve(Transform("logit"), close, coefficients)(p), p, rtol=1e-12
    )


def test_probabilities_are_never_exactly_0_or_1():
    steep = line(slope=50.0)
    ends = steep([0.0, 1.0])
    assert 0.0 < ends[0] < 1e-14
    assert 1 - 1e-14 < ends[1] < 1.0


def test_the_derivative_agrees_with_finite_differences(curve):
    scores = np.array([0.05, 0.15, 0.3, 0.5, 0.72, 0.9])
    h = 1e-6
    numerical = (curve(scores + h) - curve(scores - h)) / (2 * h)
    np.testing.assert_allclose(
        curve.derivative(scores), numerical, rtol=1e-4, atol=1e-6
    )


def test_the_inverse_undoes_the_curve(curve):
    scores = np.linspace(0.05, 0.95, 37)
    rising = curve.derivative(scores) > 1e-3
    np.testing.assert_allclose(
        curve.inverse(curve(scores))[rising], scores[rising], atol=1e-7
    )
    targets = np.linspace(curve([0.05])[0], curve([0.95])[0], 11)
    np.testing.assert_allclose(curve(curve.inverse(targets)), targets, atol=1e-9)


def test_the_inverse_of_unreachable_probabilities_is_an_end_of_the_scores():
    flat = np.zeros((4, 3))
    flat[3] = [0.0, 0.0, 0.0]
    curve = CalibrationCurve(Transform("logit"), np.array([0.0, 1.0]), flat)
    assert curve.inverse([0.2, 0.8]).tolist() == [0.0, 1.0]
    assert 0.0 <= curve.inverse([0.5])[0] <= 1.0
    assert line().inverse([0.0])[0] == pytest.approx(0.0, abs=1e-9)


def test_only_a_monotone_curve_has_an_inverse():
    with pytest.raises(ValueError, match="monotone=True"):
        line(-1.0).inverse([0.5])
    with pytest.raises(ValueError, match=r"probabilities must be in \[0, 1\]; row 1"):
        line().inverse([0.5, 1.2])


def test_a_curve_survives_json_bit_for_bit(curve):
    back = CalibrationCurve.from_dict(json.loads(json.dumps(curve.to_dict())))
    scores = np.linspace(0, 1, 1001)
    np.testing.assert_array_equal(back(scores), curve(scores))
    if curve.has_band:
        np.testing.assert_array_equal(back.band(scores), curve.band(scores))
    assert repr(back) == repr(curve)


def zeros(*shape):
    return {"shape": list(shape), "values": [0.0] * int(np.prod(shape))}


def posterior(**change):
    good = {"variance": zeros(7, 4), "tube": 0.0, "modes": zeros(0, 3)}
    return good | change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transform": {"name": "probit", "epsilon": None}}, "transform"),
        ({"transform": {"name": "logit", "epsilon": 0.7}}, "epsilon"),
        ({"breaks": [1.0, 0.0, 2.0]}, "breaks"),
        ({"breaks": [0.0] * 100_001}, "at most"),
        ({"coefficients": [1.0, 2.0]}, "coefficients"),
        ({"coefficients": {"shape": [4, 4], "values": [float("nan")] * 16}}, "finite"),
        ({"link": "probit"}, "link"),
        ({"clip": [0.0, 1.0]}, "clip"),
        ({"clip": [0.9, 0.1]}, "clip must be sorted"),
        ({"unit": 0.0}, "unit"),
        ({"posterior": posterior(variance=[1.0])}, "posterior.variance"),
        (
            {"posterior": posterior(variance=zeros(7, 3), modes=zeros(0, 2))},
            r"posterior.variance must have shape \(7, 4\)",
        ),
        ({"posterior": posterior(tube="long")}, "posterior.tube"),
        ({"posterior": posterior(modes=zeros(1, 2))}, r"shape \(1, 3\)"),
        ({"posterior": {"variance": zeros(7, 4)}}, "posterior must be a dict"),
        ({"origin": None}, "origin"),
        ({"more": 1}, "keys"),
    ],
)
def test_a_dict_that_is_no_curve_is_an_error(change, message):
    good = line().to_dict() | {"posterior": posterior()}
    CalibrationCurve.from_dict(good)
    with pytest.raises((ValueError, TypeError), match=message):
        CalibrationCurve.from_dict(good | change)


def test_a_printed_curve_says_what_it_does():
    text = str(line())
    assert "increasing" in text
    assert "calibrated" in text
    assert len(text.splitlines()) == 11


def test_a_curve_without_variance_has_no_band():
    with pytest.raises(ValueError, match="no band"):
        line().band([0.5])


def test_a_band_around_a_curve_of_length_zero_is_pointwise():
    variance = np.zeros((7, 4))
    variance[-1] = 0.04
    curve = line(posterior=Posterior(variance, 0.0, np.zeros((0, 3))))
    np.testing.assert_array_equal(
        curve.band([0.4], simultaneous=True), curve.band([0.4])
    )
    low, high = np.log(curve.band([0.5])[0] / (1 - curve.band([0.5])[0]))
    assert high == pytest.approx(1.96 * 0.2, abs=1e-3)
    assert low == pytest.approx(-high)


def test_a_stored_curve_has_a_column_for_each_interval():
    data = line().to_dict() | {"coefficients": zeros(4, 3)}
    wanted = r"coefficients must have shape \(4, 4\); got"
    with pytest.raises(ValueError, match=wanted):
        CalibrationCurve.from_dict(data)


def test_only_curves_of_log_odds_can_be_shifted():
    p = np.linspace(0.05, 0.95, 60)
    brier = SplineCalibrator(loss="brier").fit(p, p > 0.4)
    with pytest.raises(ValueError, match="only one of log-odds can be shifted"):
        brier.curves_[0].shifted(1.0)


class TestThePosteriorOfAFit:
    def fitted(self):
        rng = np.random.default_rng(0)
        p = rng.random(500)
        return SplineCalibrator().fit(p, rng.random(500) < p)

    def test_it_computes_no_band_that_nobody_asked_for(self):
        cal = self.fitted()
        posterior = cal.curves_[0].posterior
        cal.calibrate([0.2, 0.7])
        assert vars(posterior).keys() == {"basis", "root", "share", "flat"}
        cal.interval([0.5], simultaneous=True)
        assert vars(posterior).keys() >= {"variance", "tube"}

    def test_it_is_in_copies_and_pickles_and_in_numbers_in_files(self):
        cal = self.fitted()
        cal.interval([0.5])
        pickled = pickle.loads(pickle.dumps(cal))
        posterior = pickled.curves_[0].posterior
        assert vars(posterior).keys() == {"basis", "root", "share", "flat"}
        assert vars(posterior.basis).keys() == {"knots"}
        read = SplineCalibrator.from_dict(json.loads(json.dumps(cal.to_dict())))
        assert isinstance(read.curves_[0].posterior, Posterior)
        for again in (pickled, read):
            assert again.to_dict() == cal.to_dict()
            np.testing.assert_array_equal(again.interval([0.3]), cal.interval([0.3]))

    def test_a_refit_does_not_change_what_a_shifted_copy_remembers(self):
        cal = self.fitted()
        moved = cal.shifted(base_rate=0.1)
        cal.fit([0.1, 0.4, 0.6, 0.8], [0, 1, 0, 1])
        assert moved.model_.reference.counts.sum() == 500
