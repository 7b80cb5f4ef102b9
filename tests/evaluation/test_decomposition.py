import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_diagnostics.scoring import LogLoss, SquaredError, decompose
from sklearn.isotonic import IsotonicRegression

from calspline import evaluate
from calspline.evaluation.predictions import check_predictions

LOSSES = {"log_loss": LogLoss(), "brier": SquaredError()}


def adds_up(e):
    for loss in LOSSES:
        part = {
            name: getattr(e, f"{name}_{loss}")
            for name in ("calibration", "refinement", "discrimination")
        }
        assert part["calibration"] + part["refinement"] == pytest.approx(
            getattr(e, loss), abs=1e-12
        )
        uncertainty = getattr(e, f"uncertainty_{loss}")
        assert uncertainty - part["discrimination"] == pytest.approx(
            part["refinement"], abs=1e-12
        )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ties", [False, True])
def test_the_parts_are_those_of_model_diagnostics(binary, weights, loss, ties):
    p, y = binary(400, slope=2.0)
    if ties:
        p = np.round(0.05 + 0.9 * p, 1)
    w = weights(400)
    e = evaluate(y, p, sample_weight=w)
    overfit = getattr(check_predictions(y, p, w).overfit, loss).mean()
    theirs = decompose(y.astype(float), p, w, scoring_function=LOSSES[loss])
    # Their squared error is not halved, as the Brier score is not.
    assert getattr(e, f"calibration_{loss}") == pytest.approx(
        theirs["miscalibration"][0] - overfit, abs=1e-12
    )
    assert getattr(e, f"discrimination_{loss}") == pytest.approx(
        theirs["discrimination"][0] - overfit, abs=1e-12
    )
    assert getattr(e, f"uncertainty_{loss}") == pytest.approx(
        theirs["uncertainty"][0], abs=1e-12
    )


rows = st.lists(
    st.tuples(st.floats(0, 1), st.booleans(), st.floats(0.01, 100)),
    min_size=1,
    max_size=40,
)


@given(rows)
def test_the_parts_add_up_and_losses_are_not_negative(data):
    p, y, w = (np.array(column) for column in zip(*data, strict=True))
    e = evaluate(y, p, sample_weight=w)
    adds_up(e)
    for loss in LOSSES:
        for part in ("refinement", "uncertainty"):
            assert getattr(e, f"{part}_{loss}") >= -1e-12


def test_the_parts_add_up_for_more_classes(multiclass, weights):
    p, y = multiclass(400, m=5, sharpness=2.0)
    e = evaluate(y, p, sample_weight=weights(400))
    adds_up(e)
    for one in (e.top_label, *e.per_class.values()):
        adds_up(one)


def test_refinement_of_more_classes_is_the_loss_of_recalibrated_and_normalised_columns(
    multiclass,
):
    p, y = multiclass(500, m=3, sharpness=2.0)
    q = np.column_stack(
        [IsotonicRegression().fit(p[:, j], y == j).predict(p[:, j]) for j in range(3)]
    )
    given_to_outcome = (q / q.sum(axis=1, keepdims=True))[np.arange(500), y]
    overfit = check_predictions(y, p).overfit
    loss = -np.log(given_to_outcome).mean() + overfit.log_loss.mean()
    assert evaluate(y, p).refinement_log_loss == pytest.approx(loss, rel=1e-9)
    brier = sum(np.mean((q[:, j] - (y == j)) ** 2) for j in range(3))
    brier += overfit.brier.mean()
    assert evaluate(y, p).refinement_brier == pytest.approx(brier, rel=1e-9)


def test_an_increasing_map_changes_calibration_alone(binary):
    p, y = binary(500)
    a, b = evaluate(y, p), evaluate(y, p**3)
    # The overfit depends on the spline's curve a little.
    assert a.refinement_log_loss == pytest.approx(b.refinement_log_loss, abs=0.003)
    assert a.refinement_brier == pytest.approx(b.refinement_brier, abs=0.001)
