import json

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression

from calspline import SplineCalibrator, reliability


def test_bins_of_equal_width_are_scikit_learns(binary):
    p, y = binary(500, slope=2.0)
    bins = reliability(y, p, n_bins=7, strategy="uniform").bins
    happened, mean = calibration_curve(y, p, n_bins=7, strategy="uniform")
    np.testing.assert_allclose(bins.observed, happened, rtol=1e-12)
    np.testing.assert_allclose(bins.mean_score, mean, rtol=1e-12)
    np.testing.assert_allclose(bins.lower, np.arange(7) / 7)
    np.testing.assert_allclose(bins.upper, np.arange(1, 8) / 7)


def test_bins_of_equal_weight_share_the_rows(binary):
    p, y = binary(500)
    r = reliability(y, p, n_bins=5)
    assert r.bins.count.tolist() == [100] * 5
    assert len(r.bins) == 5
    assert (r.bins.lower[0], r.bins.upper[-1]) == (p.min(), p.max())
    np.testing.assert_array_equal(r.bins.upper[:-1], r.bins.lower[1:])
    for i in range(5):
        inside = (p >= r.bins.lower[i]) & (p <= r.bins.upper[i])
        assert inside.sum() == 100
        assert r.bins.observed[i] == pytest.approx(y[inside].mean())


def test_intervals_are_exact(binary):
    p, y = binary(300, shape="rare events")
    bins = reliability(y, p, level=0.9).bins
    for i in range(len(bins)):
        exact = binomtest(
            round(bins.observed[i] * bins.count[i]), int(bins.count[i])
        ).proportion_ci(0.9)
        assert (bins.interval_lower[i], bins.interval_upper[i]) == pytest.approx(
            (exact.low, exact.high), abs=1e-9
        )


def test_the_corp_curve_is_isotonic_regression(binary, weights):
    p, y = binary(200, slope=2.0)
    w = weights(200)
    corp = reliability(y, p, sample_weight=w).corp
    model = IsotonicRegression().fit(p, y, sample_weight=w)
    np.testing.assert_allclose(corp.recalibrated, model.predict(corp.score), atol=1e-12)
    for lower, upper, value in zip(corp.lower, corp.upper, corp.value, strict=True):
        np.testing.assert_allclose(model.predict([lower, upper]), value, atol=1e-12)
    assert np.all(np.diff(corp.value) > 0)
    assert corp.weight.sum() == pytest.approx(200 if w is None else w.sum())


@pytest.mark.slow
def test_right_probabilities_stay_within_the_consistency_band_and_wrong_ones_leave_it(
    binary,
):
    inside = []
    for seed in range(40):
        p, y = binary(200, seed)
        corp = reliability(y, p).corp
        inside.append(
            np.mean(
                (corp.recalibrated >= corp.band_lower)
                & (corp.recalibrated <= corp.band_upper)
            )
        )
    assert 0.92 <= np.mean(inside) <= 0.98
    p, y = binary(2000, slope=3.0)
    corp = reliability(y, p).corp
    assert (
        np.mean(
            (corp.recalibrated >= corp.band_lower)
            & (corp.recalibrated <= corp.band_upper)
        )
        < 0.5
    )


def test_the_spline_is_the_calibrators(binary, weights):
    p, y = binary(600, slope=2.0)
    w = weights(600)
    spline = reliability(y, p, sample_weight=w, level=0.8).spline
    model = SplineCalibrator().fit(p, y, w)
    np.testing.assert_allclose(spline.value, model.calibrate(spline.score), rtol=1e-12)
    np.testing.assert_allclose(
        np.column_stack([spline.lower, spline.upper]), model.interval(spline.score, 0.8)
    )
    whole = model.interval(spline.score, 0.8, simultaneous=True)
    np.testing.assert_allclose(
        np.column_stack([spline.simultaneous_lower, spline.simultaneous_upper]), whole
    )
    assert spline.edf == model.edf_
    assert (spline.score[0], spline.score[-1]) == (p.min(), p.max())


def test_one_class_alone_has_no_spline():
    r = reliability([0, 0, 0], [0.1, 0.2, 0.3])
    assert r.spline is None
    assert r.to_dict()["spline"] is None
    assert r.bins.observed.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_heaps_of_equal_scores_share_a_bin(strategy):
    p = np.array([0.0] * 50 + [0.3] * 30 + [1.0] * 20)
    y = np.array([0] * 50 + [1] * 10 + [0] * 20 + [1] * 20)
    r = reliability(y, p, strategy=strategy)
    assert r.bins.count.tolist() == [50, 30, 20]
    np.testing.assert_allclose(r.bins.observed, [0, 1 / 3, 1])
    assert np.isfinite(r.spline.value).all()
    assert reliability([0, 1], [0.5, 0.5]).bins.count.tolist() == [2]


def test_weights_count_as_rows(binary):
    p, y = binary(200)
    w = np.random.default_rng(0).integers(0, 4, 200)
    a, b = (
        reliability(y, p, sample_weight=w),
        reliability(np.repeat(y, w), np.repeat(p, w)),
    )
    for name in (
        "weight",
        "mean_score",
        "observed",
        "interval_lower",
        "interval_upper",
    ):
        np.testing.assert_allclose(
            getattr(a.bins, name), getattr(b.bins, name), rtol=1e-9
        )
    np.testing.assert_allclose(a.corp.band_lower, b.corp.band_lower, atol=1e-12)
    np.testing.assert_allclose(a.spline.value, b.spline.value, rtol=1e-9)
    np.testing.assert_array_equal(a.histogram_weight, b.histogram_weight)


def test_the_histogram_holds_all_rows(binary):
    p, y = binary(300)
    r = reliability(y, p)
    np.testing.assert_array_equal(
        r.histogram_weight, np.histogram(p, r.histogram_edges)[0]
    )


def test_more_classes_have_a_diagram_each_and_one_of_the_top_label(multiclass):
    p, y = multiclass(400, m=3)
    r = reliability(np.array(["a", "b", "c"])[y], p)
    assert [one.name for one in r.classes] == ["a", "b", "c"]
    alone = reliability(y == 1, p[:, 1])
    np.testing.assert_array_equal(r.classes[1].bins.observed, alone.bins.observed)
    top = reliability(p.argmax(axis=1) == y, p.max(axis=1))
    np.testing.assert_array_equal(r.bins.observed, top.bins.observed)
    assert r.name == r.top_label.name == "top label"
    assert r.top_label.classes == alone.classes == ()
    assert alone.top_label is None


def test_it_prints_and_is_plain(binary, multiclass):
    p, y = binary(300)
    r = reliability(np.array(["no", "<yes>"])[y], p, n_bins=4, labels=["no", "<yes>"])
    plain = json.loads(json.dumps(r.to_dict()))
    assert plain["bins"]["observed"] == r.bins.observed.tolist()
    assert plain["spline"]["curve"]["link"] == "logit"
    assert f"{r.bins.observed[2]:.4f}" in str(r)
    assert "&lt;yes&gt;" in r._repr_html_()
    assert "<yes>" not in r._repr_html_()
    assert "4 bins" in repr(r)
    p, y = multiclass(100, m=3)
    many = reliability(y, p)
    assert str(many).count("Reliability of") == many._repr_html_().count("<table>") == 4
    assert len(json.loads(json.dumps(many.to_dict()))["classes"]) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "n_bins must be an integer of at least 1"),
        ({"strategy": "width"}, "strategy must be one of"),
        ({"level": 1.5}, "level must be a number"),
        ({"sample_weight": [1]}, "sample_weight"),
        ({"labels": [1]}, "labels"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        reliability([0, 1], [0.2, 0.7], **options)
