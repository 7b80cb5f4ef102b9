import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from calspline import evaluate
from calspline.evaluation.evaluate import SCORERS, scorer


@pytest.mark.parametrize("measure", SCORERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_scorer_gives_what_evaluate_gives_with_the_sign_that_more_is_better(
    measure, classes
):
    X, y = make_classification(200, n_informative=4, n_classes=classes, random_state=0)
    model = LogisticRegression().fit(X, y)
    sign = 1.0 if measure in ("accuracy", "auc") else -1.0
    want = sign * getattr(evaluate(y, model.predict_proba(X)), measure)
    assert scorer(measure)(model, X, y) == pytest.approx(want)


def test_a_grid_search_chooses_by_it():
    X, y = make_classification(300, n_features=40, random_state=0)
    grid = {"C": [1e-3, 1e-1, 1e3]}
    names = ("log_loss", "smooth_ece")
    search = GridSearchCV(
        LogisticRegression(max_iter=500),
        grid,
        scoring={n: scorer(n) for n in names},
        refit="log_loss",
    )
    found = search.fit(X, y).cv_results_
    own = (
        GridSearchCV(LogisticRegression(max_iter=500), grid, scoring="neg_log_loss")
        .fit(X, y)
        .cv_results_
    )
    np.testing.assert_allclose(found["mean_test_log_loss"], own["mean_test_score"])
    assert (found["mean_test_smooth_ece"] < 0).all()


def test_weights_reach_the_measure():
    X, y = make_classification(200, random_state=0)
    model = LogisticRegression().fit(X, y)
    w = np.random.default_rng(0).integers(1, 4, 200)
    want = -evaluate(y, model.predict_proba(X), sample_weight=w).log_loss
    assert scorer("log_loss")(model, X, y, sample_weight=w) == pytest.approx(want)


def test_an_unknown_measure_is_named():
    with pytest.raises(ValueError, match="measure must be one of 'log_loss'"):
        scorer("calibration")
