import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_diagnostics.scoring import LogLoss, SquaredError, decompose
from sklearn.isotonic import IsotonicRegression

from calspline import evaluate

LOSSES = {"log_loss": LogLoss(), "brier": SquaredError()}


def adds_up(e):
    for loss in LOSSES:
        part = {name: getattr(e, f"{name}_{loss}") for name in ("calibration", "refinement", "discrimination")}
        assert part["calibration"] + part["refinement"] == pytest.approx(getattr(e, loss), abs=1e-12)
        uncertainty = getattr(e, f"uncertainty_{loss}")
        assert uncertainty - part["discrimination"] == pytest.approx(part["refinement"], abs=1e-12)
    murphy = e.murphy_reliability - e.murphy_resolution + e.murphy_uncertainty + e.murphy_within_bins
    assert murphy == pytest.approx(e.brier, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ties", [False, True])
def test_the_parts_are_those_of_model_diagnostics(binary, weights, loss, ties):
    p, y = binary(400, slope=2.0)
    if ties:
        p = np.round(0.05 + 0.9 * p, 1)
    w = weights(400)
    e = evaluate(y, p, sample_weight=w)
    theirs = decompose(y.astype(float), p, w, scoring_function=LOSSES[loss])
    # Their squared error is not halved, as the Brier score is not.
    assert getattr(e, f"calibration_{loss}") == pytest.approx(theirs["miscalibration"][0], abs=1e-12)
    assert getattr(e, f"discrimination_{loss}") == pytest.approx(theirs["discrimination"][0], abs=1e-12)
    assert getattr(e, f"uncertainty_{loss}") == pytest.approx(theirs["uncertainty"][0], abs=1e-12)


rows = st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.floats(0.01, 100)), min_size=1, max_size=40)


@given(rows)
def test_the_parts_add_up_and_none_is_negative(data):
    p, y, w = (np.array(column) for column in zip(*data, strict=True))
    e = evaluate(y, p, sample_weight=w)
    adds_up(e)
    for loss in LOSSES:
        for part in ("calibration", "refinement", "discrimination", "uncertainty"):
            assert getattr(e, f"{part}_{loss}") >= -1e-12


def test_the_parts_add_up_for_more_classes(multiclass, weights):
    p, y = multiclass(400, m=5, sharpness=2.0)
    e = evaluate(y, p, sample_weight=weights(400))
    adds_up(e)
    for one in (e.top_label, *e.per_class.values()):
        adds_up(one)


def test_refinement_of_more_classes_is_the_loss_of_recalibrated_and_normalised_columns(multiclass):
    p, y = multiclass(500, m=3, sharpness=2.0)
    q = np.column_stack([IsotonicRegression().fit(p[:, j], y == j).predict(p[:, j]) for j in range(3)])
    given_to_outcome = (q / q.sum(axis=1, keepdims=True))[np.arange(500), y]
    assert evaluate(y, p).refinement_log_loss == pytest.approx(-np.log(given_to_outcome).mean(), rel=1e-9)
    brier = sum(np.mean((q[:, j] - (y == j)) ** 2) for j in range(3))
    assert evaluate(y, p).refinement_brier == pytest.approx(brier, rel=1e-9)


def test_an_increasing_map_changes_calibration_alone(binary):
    p, y = binary(500)
    a, b = evaluate(y, p), evaluate(y, p**3)
    assert a.refinement_log_loss == pytest.approx(b.refinement_log_loss, abs=1e-14)
    assert a.refinement_brier == pytest.approx(b.refinement_brier, abs=1e-14)


def test_murphys_terms_are_those_of_the_definition(binary, weights):
    p, y = binary(300)
    w = weights(300)
    e = evaluate(y, p, sample_weight=w)
    w = np.ones(300) if w is None else w
    reliability = resolution = 0.0
    base = np.average(y, weights=w)
    for b in range(15):
        inside = np.minimum((p * 15).astype(int), 14) == b
        share, rate = w[inside].sum() / w.sum(), np.average(y[inside], weights=w[inside])
        reliability += share * (np.average(p[inside], weights=w[inside]) - rate) ** 2
        resolution += share * (rate - base) ** 2
    assert e.murphy_reliability == pytest.approx(reliability, abs=1e-14)
    assert e.murphy_resolution == pytest.approx(resolution, abs=1e-14)
    assert e.murphy_uncertainty == pytest.approx(base * (1 - base), abs=1e-14)


def test_bins_of_one_probability_each_leave_nothing_within_bins(binary):
    p, y = binary(300, shape="ten values")
    assert evaluate(y, p).murphy_within_bins == pytest.approx(0.0, abs=1e-14)
