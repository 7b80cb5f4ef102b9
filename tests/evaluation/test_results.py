"""Every result has text, HTML, a dictionary and a data frame of the same numbers."""

import numpy as np
import pytest
from scipy.special import expit

from calspline import (
    Monitor,
    ScoreHistogram,
    SplineCalibrator,
    calibration_learning_curve,
    compare,
    decide,
    drift,
    evaluate,
    expected,
    reliability,
)
from calspline._results import Result

pandas = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
X = RNG.normal(size=600)
Y = RNG.random(600) < expit(X)
P = expit(1.5 * X)
BY = np.where(RNG.random(600) < 0.5, "a & b", "c")
CALIBRATOR = SplineCalibrator().fit(P, Y, by=BY)


def histograms():
    return ScoreHistogram.from_scores(P, Y, by=BY)


RESULTS = {
    "evaluate": lambda: evaluate(Y, P),
    "evaluate by": lambda: evaluate(Y, P, by=BY),
    "segments": lambda: evaluate(Y, P, by=BY).segments,
    "compare": lambda: compare(Y, {"raw": P, "true": expit(X)}, by=BY),
    "differences": lambda: compare(Y, {"raw": P, "true": expit(X)}, by=BY).segments[
        "true"
    ],
    "reliability": lambda: reliability(Y, P),
    "decide": lambda: decide(Y, P, at_least={"recall": 0.5}, by=BY),
    "drift": lambda: drift(*[ScoreHistogram.from_scores(P, Y)] * 2),
    "drift by": lambda: drift(histograms(), histograms()),
    "expected": lambda: expected(SplineCalibrator().fit(P, Y), P),
    "monitor": lambda: Monitor(SplineCalibrator().fit(P, Y)).update(
        ScoreHistogram.from_scores(P, Y)
    ),
    "learning curve": lambda: calibration_learning_curve(
        SplineCalibrator(), P, Y, sizes=[50, 200], n_repeats=1
    ),
    "table of segments": lambda: CALIBRATOR.segments_,
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_has_text_html_a_dictionary_and_a_frame(name):
    result = RESULTS[name]()
    assert isinstance(result, Result)
    assert "\n" in str(result)
    assert "<td" in result._repr_html_()
    assert "a & b" not in result._repr_html_()
    assert result.to_dict()
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame)


def test_an_evaluation_has_limits_in_its_dictionary_and_its_frame():
    result = evaluate(Y, P)
    low, high = result.limits["log_loss"]
    numbers = result.to_dict()
    assert (numbers["log_loss_lower"], numbers["log_loss_upper"]) == (low, high)
    row = result.to_frame().set_index("name").loc["log_loss"]
    assert row.tolist() == [result.log_loss, low, high]


def test_an_evaluation_prints_a_verdict_and_six_numbers():
    lines = str(evaluate(Y, P)).splitlines()
    assert lines[0] == "600 rows, 2 classes"
    assert lines[1].startswith("The probabilities are over-confident (p ")
    assert len(lines[4:]) == 6
    assert "No evidence of miscalibration" in str(evaluate(Y, expit(X)))


def test_numbers_are_computed_when_they_are_read():
    result = evaluate(Y, P)
    assert result.log_loss > 0.0
    assert "spline" not in vars(result.rows)
    assert result.ici > 0.0
    assert "spline" in vars(result.rows)


def test_guarantees_by_segment_are_in_the_dictionary_and_in_html():
    result = decide(Y, P, at_least={"recall": 0.5}, by=BY)
    numbers = result.to_dict()
    for name, one in result.segments["probabilities"].items():
        key = f"probabilities.{name}.guaranteed_threshold"
        assert numbers[key] == one.threshold
    assert result.guarantees["probabilities"].statement in result._repr_html_()


def test_the_report_warns_of_training_data(tmp_path):
    from calspline import report

    calibrator = SplineCalibrator().fit(P[:300], Y[:300])
    warning = "the rows that the calibrator was fitted to"
    sets = {"raw": P, "calibrated": calibrator.calibrate(P)}
    of_fit = {name: p[:300] for name, p in sets.items()}
    with pytest.warns(UserWarning, match=warning):
        page = report(Y[:300], of_fit, calibrator=calibrator).html
    assert warning in page
    others = {name: p[300:600] for name, p in sets.items()}
    assert warning not in report(Y[300:600], others, calibrator=calibrator).html
