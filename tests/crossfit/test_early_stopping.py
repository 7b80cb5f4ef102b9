"""Early stopping in every fold, on rows that neither the fold's model nor the calibrator has seen."""

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit

from calspline import CalibratedClassifierCV

TREES = 300
INNER = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(1500, 8, n_informative=4, flip_y=0.3, random_state=0)
    return X[:1000], y[:1000], X[1000:], y[1000:]


class Recorder(LogisticRegression):
    """Keeps what its fit was given."""

    def fit(self, X, y, sample_weight=None, eval_set=None):
        self.given_ = X, y, sample_weight, eval_set
        return super().fit(X, y, sample_weight)


def lightgbm():
    package = pytest.importorskip("lightgbm")
    model = package.LGBMClassifier(n_estimators=TREES, n_jobs=1, verbose=-1)
    return model, {"callbacks": [package.early_stopping(5, verbose=False)]}


def xgboost():
    package = pytest.importorskip("xgboost")
    return package.XGBClassifier(
        n_estimators=TREES, n_jobs=1, early_stopping_rounds=5
    ), {"verbose": False}


@pytest.mark.slow
@pytest.mark.parametrize("make", [lightgbm, xgboost])
@pytest.mark.parametrize("ensemble", [False, True])
def test_boosting_stops_in_every_fold_and_is_the_better_for_it(make, ensemble, data):
    X, y, X_test, y_test = data
    model, params = make()
    stopped = CalibratedClassifierCV(model, cv=3, ensemble=ensemble).fit(
        X, y, eval_set=INNER, **params
    )
    for pair in stopped.calibrated_classifiers_:
        fitted = pair.estimator
        best = (
            fitted.best_iteration_
            if hasattr(fitted, "best_iteration_")
            else fitted.best_iteration
        )
        assert 0 < best < TREES / 2
    plain = type(model)(
        **model.get_params()
        | ({"early_stopping_rounds": None} if make is xgboost else {})
    )
    whole = CalibratedClassifierCV(plain, cv=3, ensemble=ensemble).fit(X, y)
    losses = [log_loss(y_test, each.predict_proba(X_test)) for each in (stopped, whole)]
    assert losses[0] < losses[1]


def test_rows_that_stop_a_model_are_its_own_and_not_those_it_learns_from(data):
    X, y = data[:2]
    weight = np.arange(1.0, 1001.0) / 500.5
    row = {bytes(one): i for i, one in enumerate(X)}
    fitted = CalibratedClassifierCV(Recorder(), cv=4, ensemble=True).fit(
        X, y, sample_weight=weight, eval_set=INNER
    )
    held_out = []
    for pair in fitted.calibrated_classifiers_:
        seen, labels, weights, [(X_held, y_held)] = pair.estimator.given_
        train, held = ([row[bytes(one)] for one in part] for part in (seen, X_held))
        assert len(train) == 600
        assert len(held) == 150
        assert not set(train) & set(held)
        np.testing.assert_array_equal(labels, y[train])
        np.testing.assert_array_equal(weights, weight[train])
        np.testing.assert_array_equal(y_held, y[held])
        held_out.append(frozenset(held))
    assert len(set(held_out)) == 4


def test_a_function_may_split_and_groups_reach_a_splitter(data):
    X, y = data[:2]
    last = CalibratedClassifierCV(Recorder(), cv=3).fit(
        X, y, eval_set=lambda X, y: (range(100), np.arange(len(y) - 100, len(y)))
    )
    seen, _, _, [(X_held, _)] = last.calibrated_classifiers_[0].estimator.given_
    np.testing.assert_array_equal(seen, X[:100])
    np.testing.assert_array_equal(X_held, X[900:])
    groups = np.arange(1000) // 10
    whole = CalibratedClassifierCV(Recorder(), cv=3).fit(
        X,
        y,
        groups=groups,
        eval_set=GroupShuffleSplit(1, test_size=0.3, random_state=0),
    )
    seen, _, _, [(X_held, _)] = whole.calibrated_classifiers_[0].estimator.given_
    row = {bytes(one): i for i, one in enumerate(X)}
    assert not {row[bytes(one)] // 10 for one in seen} & {
        row[bytes(one)] // 10 for one in X_held
    }


@pytest.mark.parametrize(
    "split",
    [
        lambda X, y: ([0, 1, 2], [2, 3]),
        lambda X, y: ([0, 1, 2], []),
        lambda X, y: ([], [2, 3]),
    ],
)
def test_parts_that_overlap_or_are_empty_are_refused(data, split):
    with pytest.raises(ValueError, match="eval_set must split rows into two parts"):
        CalibratedClassifierCV(Recorder(), cv=3).fit(*data[:2], eval_set=split)


def test_a_given_set_is_passed_on_as_it_is(data):
    X, y, X_test, y_test = data
    fitted = CalibratedClassifierCV(Recorder(), cv=3).fit(
        X, y, eval_set=[(X_test, y_test)]
    )
    given = fitted.calibrated_classifiers_[0].estimator.given_
    assert len(given[1]) == 1000
    assert given[3][0][0] is X_test


class Asks(ClassifierMixin, BaseEstimator):
    """Asks for an evaluation set by scikit-learn's routing."""

    def fit(self, X, y, eval_set=None):
        self.classes_, self.held_out_ = np.unique(y), len(eval_set[0][1])
        return self

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-X[:, 0]))
        return np.column_stack([1 - p, p])


def test_routed_parameters_are_split_too(data):
    with sklearn.config_context(enable_metadata_routing=True):
        fitted = CalibratedClassifierCV(
            Asks().set_fit_request(eval_set=True), cv=4
        ).fit(*data[:2], eval_set=INNER)
    assert fitted.calibrated_classifiers_[0].estimator.held_out_ == 200
