import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from scipy.stats import norm
from sklearn.metrics import log_loss

from calspline import SplineCalibrator, TemperatureCalibrator
from calspline.fits import structured as structured_fit
from calspline.fits.structured import (
    STEADY,
    average_line,
    blend,
    fit_structured,
    learnt_share,
)
from calspline.multiclass.scale import Scale, TemperatureFit
from calspline.multiclass.solver import FitData


def simulate(n, m=4, seed=0, sharpness=1.0, bend=0.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (n, m)) + np.linspace(0.5, -0.5, m)
    y = (softmax(logits, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return softmax(sharpness * logits + bend * np.maximum(logits, 0.0) ** 2, axis=1), y


def learnt_alone(monkeypatch):
    """From here on the fit is what was learnt, with nothing of the cautious one."""
    monkeypatch.setattr(structured_fit, "average_map", lambda fitted, line: fitted.map)


@pytest.mark.parametrize(
    ("t", "information"), [(0.0, 3.0), (0.4, 20.0), (-1.2, 500.0), (0.05, 1e5)]
)
def test_evidence_of_a_temperature_follows_from_normal_densities(t, information):
    p, y = simulate(200)
    data = FitData.on_scale(
        Scale(-40.0, np.exp(t), 1e-3), np.log(p), y, np.ones(len(y))
    )
    line = average_line(
        data, TemperatureFit(np.exp(t), information), cautious=np.exp(0.5 * t)
    )

    def loss(slope):
        return -log_softmax(slope * data.u, axis=1)[np.arange(len(y)), y].sum()

    estimate = t * (information + 1) / information
    densities = [
        norm.logpdf(estimate, scale=np.sqrt(1 / information + 1 / prior))
        for prior in (1.0, STEADY)
    ]
    evidence = densities[0] - densities[1]
    gain = loss(np.exp(-0.5 * t)) - loss(1.0)
    spent = information / (information + 1) - information / (information + STEADY)
    assert line.evidence_against(loss(1.0)) == pytest.approx(evidence + gain - spent)
    share = 1 / (1 + np.exp(-0.5 * (evidence - 1.0)))
    assert line.slope == pytest.approx(share + (1 - share) * np.exp(-0.5 * t))


def test_the_share_follows_akaikes_criterion_and_grows_with_the_gain():
    assert learnt_share(11.0, 7.0, 2.0) == pytest.approx(1 / (1 + np.exp(-0.25 * 6.0)))
    shares = [learnt_share(gain, 5.0, 0.1) for gain in (0.0, 5.0, 50.0, 500.0)]
    assert np.all(np.diff(shares) > 0)
    assert shares[-1] == pytest.approx(1.0)
    assert (
        learnt_share(5.0, 9.0, 0.1)
        < learnt_share(5.0, 5.0, 0.1)
        < learnt_share(5.0, 5.0, 4.0)
    )


def test_a_temperature_far_from_one_alone_does_not_decide():
    assert learnt_share(0.0, 10.0, 1e6) < 0.2
    assert learnt_share(6.0, 12.0, 1e6) < 0.4


@pytest.mark.parametrize("monotone", [False, True])
def test_a_blend_averages_the_linear_predictor(monotone):
    p, y = simulate(500, sharpness=2.0)
    fit = fit_structured(np.log(p), y, np.ones(len(y)), monotone=monotone)
    half = blend(fit, 0.7, 0.25)
    u = np.linspace(-9.0, 0.0, 50)
    np.testing.assert_allclose(
        half.curve(u), 0.25 * fit.curve(u) + 0.75 * 0.7 * u, atol=1e-12
    )
    np.testing.assert_allclose(half.b, 0.25 * fit.b)
    assert (half.W is None) == monotone
    if not monotone:
        np.testing.assert_allclose(half.W, 0.25 * fit.W)
    np.testing.assert_allclose(half.effective, 0.25 * fit.effective)


@pytest.mark.parametrize("monotone", [False, True])
def test_with_many_rows_it_is_the_fit_that_was_learnt(monotone, monkeypatch):
    p, y = simulate(20_000, sharpness=2.0, bend=0.5)
    averaged = SplineCalibrator(monotone=monotone).fit(p, y)
    learnt_alone(monkeypatch)
    alone = SplineCalibrator(monotone=monotone).fit(p, y)
    np.testing.assert_allclose(
        averaged.predict_proba(p), alone.predict_proba(p), atol=1e-9
    )
    assert averaged.edf_ == pytest.approx(alone.edf_)


@pytest.mark.parametrize("monotone", [False, True])
def test_calibrated_scores_with_few_rows_stay_about_as_they_are(monotone, monkeypatch):
    q, z = simulate(4000, m=5, seed=99)
    changes = {"averaged": [], "alone": []}
    moved = {"averaged": [], "alone": []}
    for name in changes:
        if name == "alone":
            learnt_alone(monkeypatch)
        for seed in range(10):
            p, y = simulate(150, m=5, seed=seed)
            out = SplineCalibrator(monotone=monotone).fit(p, y).predict_proba(q)
            changes[name].append(log_loss(z, out) - log_loss(z, q))
            moved[name].append(np.abs(out - q).mean())
    assert np.mean(changes["averaged"]) < 0.75 * np.mean(changes["alone"])
    assert np.mean(moved["averaged"]) < min(0.02, 0.9 * np.mean(moved["alone"]))


def test_badly_calibrated_scores_with_few_rows_are_still_set_right():
    q, z = simulate(4000, m=5, seed=99, sharpness=3.0)
    for seed in range(5):
        p, y = simulate(150, m=5, seed=seed, sharpness=3.0)
        out = SplineCalibrator().fit(p, y).predict_proba(q)
        assert log_loss(z, out) < log_loss(z, q) - 0.5
        assert (
            log_loss(z, out)
            < log_loss(z, TemperatureCalibrator().fit(p, y).predict_proba(q)) + 0.05
        )


def test_the_order_of_rows_and_classes_does_not_matter_and_weights_are_repetitions():
    p, y = simulate(120)
    q, _ = simulate(200, seed=1)
    expected = SplineCalibrator().fit(p, y).predict_proba(q)
    order = np.random.default_rng(0).permutation(len(p))
    np.testing.assert_allclose(
        SplineCalibrator().fit(p[order], y[order]).predict_proba(q), expected, atol=1e-9
    )
    turn = np.array([2, 0, 3, 1])
    turned = (
        SplineCalibrator()
        .fit(p[:, turn], np.argsort(turn)[y])
        .predict_proba(q[:, turn])
    )
    np.testing.assert_allclose(turned, expected[:, turn], atol=1e-8)
    w = np.random.default_rng(1).integers(0, 3, len(p))
    weighted = SplineCalibrator().fit(p, y, w).predict_proba(q)
    repeated = (
        SplineCalibrator()
        .fit(np.repeat(p, w, axis=0), np.repeat(y, w))
        .predict_proba(q)
    )
    np.testing.assert_allclose(weighted, repeated, atol=1e-8)


def test_logits_do_not_depend_on_their_unit_and_agree_with_probabilities_of_many_rows():
    p, y = simulate(20_000, sharpness=1.5, bend=0.2)
    q, _ = simulate(200, seed=1)
    logits = (
        SplineCalibrator()
        .fit(3.0 * np.log(p) + 5.0, y)
        .predict_proba(3.0 * np.log(q) - 3.0)
    )
    np.testing.assert_allclose(
        logits, SplineCalibrator().fit(p, y).predict_proba(q), atol=0.005
    )


def test_a_fixed_smoothing_is_not_averaged(monkeypatch):
    p, y = simulate(100)
    expected = SplineCalibrator(smoothing=30.0).fit(p, y)
    learnt_alone(monkeypatch)
    found = SplineCalibrator(smoothing=30.0).fit(p, y)
    np.testing.assert_array_equal(found.predict_proba(p), expected.predict_proba(p))
    assert found.smoothing_ == 30.0


def test_the_summary_tells_what_is_left_of_every_part(monkeypatch):
    p, y = simulate(100)
    cautious = SplineCalibrator().fit(p, y)
    learnt_alone(monkeypatch)
    bold = SplineCalibrator().fit(p, y)
    assert cautious.edf_ < bold.edf_
    first = cautious.summary().splitlines()[1]
    s, breaks = cautious.structure_, cautious.structure_.breaks[[0, -1]]
    slope = np.diff(s.curve(breaks))[0] / np.diff(breaks)[0]
    assert (
        first
        == f"  inverse temperature {s.scale.beta:.4g}, and the curve's mean slope {slope:.3g}"
    )
    assert (
        f"matrix: strength {s.strengths[2]:.3g}, {s.effective[2]:.1f} effective"
        in cautious.summary()
    )
