import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
)
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from calspline import CalibratedClassifierCV, SplineCalibrator


@pytest.fixture(scope="module")
def data():
    return make_classification(600, 10, flip_y=0.15, random_state=2)


def test_the_calibrator_is_fitted_on_the_out_of_bag_votes(data):
    X, y = data
    forest = RandomForestClassifier(80, oob_score=True, random_state=0).fit(X, y)
    by_hand = SplineCalibrator().fit(forest.oob_decision_function_, y)
    ours = CalibratedClassifierCV(
        RandomForestClassifier(80, random_state=0), cv="oob"
    ).fit(X, y)
    expected = by_hand.predict_proba(forest.predict_proba(X))
    np.testing.assert_allclose(ours.predict_proba(X), expected, atol=1e-12)
    assert ours.calibrated_classifiers_[0].estimator.n_estimators == 80


@pytest.mark.thorough
def test_it_does_as_well_as_folds(data):
    X, X_test, y, y_test = train_test_split(*data, random_state=0)
    forest = RandomForestClassifier(200, random_state=0)
    folds, oob = (
        log_loss(
            y_test,
            CalibratedClassifierCV(forest, cv=cv).fit(X, y).predict_proba(X_test),
        )
        for cv in (5, "oob")
    )
    raw = log_loss(y_test, forest.fit(X, y).predict_proba(X_test))
    assert oob < raw
    assert oob < folds + 0.02


@pytest.mark.parametrize(
    "model",
    [
        ExtraTreesClassifier(40, bootstrap=True, random_state=0),
        BaggingClassifier(GaussianNB(), 40, random_state=0),
        make_pipeline(StandardScaler(), RandomForestClassifier(40, random_state=0)),
    ],
    ids=["extra trees", "bagging", "pipeline"],
)
def test_any_bagging_estimator_will_do(data, model):
    X, y = data
    p = CalibratedClassifierCV(model, cv="oob").fit(X, y).predict_proba(X)
    assert log_loss(y, p) < np.log(2)


@pytest.mark.parametrize("model", [RandomForestClassifier, BaggingClassifier])
def test_rows_that_every_tree_drew_are_left_out(data, model):
    X, y = data
    ours = CalibratedClassifierCV(model(n_estimators=3, random_state=0), cv="oob").fit(
        X, y
    )
    histogram = ours.calibrated_classifiers_[0].calibrators[0].histogram_
    # A row escapes at least one of three bootstrap samples with probability 1 - (1 -
    # 1/e)^3.
    assert histogram.total == pytest.approx(
        len(y) * (1 - (1 - np.exp(-1)) ** 3), rel=0.1
    )
    assert histogram.total < len(y)


def test_more_classes_and_weights(data):
    X, y = make_classification(500, 10, n_informative=6, n_classes=4, random_state=0)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    there = weight > 0
    forest = RandomForestClassifier(60, random_state=0)
    some = CalibratedClassifierCV(forest, cv="oob").fit(X, y, sample_weight=weight)
    fewer = CalibratedClassifierCV(forest, cv="oob").fit(
        X[there], y[there], sample_weight=weight[there]
    )
    np.testing.assert_allclose(
        some.predict_proba(X), fewer.predict_proba(X), atol=1e-12
    )


def test_trees_that_leave_no_row_out_are_an_error():
    X, y = np.zeros((2, 1)), np.array([0, 1])
    messages = set()
    for seed in range(8):  # one tree draws both of two rows half of the time
        with pytest.raises(ValueError, match="row") as error:
            CalibratedClassifierCV(
                RandomForestClassifier(1, random_state=seed), cv="oob"
            ).fit(X, y)
        messages.add(str(error.value))
    assert (
        'cv="oob" found no row that some tree did not draw; use more trees, or folds'
        in messages
    )
