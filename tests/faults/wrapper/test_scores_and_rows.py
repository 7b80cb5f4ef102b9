"""The contract for CalibratedClassifierCV where a model's odd scores, or few rows, are the trouble."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from calspline import CalibratedClassifierCV, ClippingCalibrator, SplineCalibrator, save
from calspline.fitting import newton

METHODS = ["spline", "beta"]


@pytest.fixture(params=METHODS)
def method(request):
    return request.param


@pytest.fixture(scope="module")
def data():
    return make_classification(90, 4, n_informative=3, n_redundant=0, random_state=1)


class Through(ClassifierMixin, BaseEstimator):
    """A model whose probability of the second class, or of all, is a function of the features."""

    def __init__(self, say, n_classes=2):
        self.say, self.n_classes = say, n_classes

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = np.asarray(self.say(X))
        return np.column_stack([1 - p, p]) if p.ndim == 1 else p


def wrapped(say, method="spline", **options):
    return CalibratedClassifierCV(Through(say), method=method, cv=3, **options)


def proper(p):
    assert np.all((p > 0) & (p < 1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


def half(X):
    return 1 / (1 + np.exp(-X[:, 0]))


def test_03_margins_of_a_decision_function_are_calibrated(data, method):
    from sklearn.svm import LinearSVC

    proper(
        CalibratedClassifierCV(LinearSVC(), method=method, cv=3)
        .fit(*data)
        .predict_proba(100 * data[0])
    )


def test_05_empty_predict(data, method):
    fitted = wrapped(half, method).fit(*data)
    assert fitted.predict_proba(data[0][:0]).shape == (0, 2)
    assert fitted.predict(data[0][:0]).shape == (0,)


def test_06_07_08_features_that_the_model_refuses(data):
    X, y = data
    for bad in (np.stack([X, X]), X + 0j, X.astype("U5")):
        with pytest.raises((ValueError, TypeError)):
            CalibratedClassifierCV(GaussianNB(), cv=3).fit(
                bad, y[: len(bad)] if len(bad) > 2 else [0, 1]
            )


def test_09_sparse_features_are_the_models_business(data, method):
    X, y = data
    model = CalibratedClassifierCV(LogisticRegression(), method=method, cv=3)
    found = clone(model).fit(sparse.csr_array(X), y).predict_proba(sparse.csr_array(X))
    np.testing.assert_allclose(found, model.fit(X, y).predict_proba(X), atol=1e-4)


def test_13_a_model_that_always_says_the_same(data, method):
    X, y = data
    with pytest.warns(
        UserWarning,
        match="all scores are equal: the calibrated probability is the base rate",
    ):
        p = (
            CalibratedClassifierCV(
                DummyClassifier(), method=method, cv=3, ensemble=False
            )
            .fit(X, y)
            .predict_proba(X)
        )
    np.testing.assert_allclose(p[:, 1], y.mean(), atol=1e-6)


def test_16_one_row(data, method):
    with pytest.raises(ValueError, match="got one class"):
        wrapped(half, method).fit(data[0][:1], data[1][:1])


def test_19_every_container_of_features_gives_the_same_numbers(data, method):
    X, y = data
    model = CalibratedClassifierCV(GaussianNB(), method=method, cv=3)
    expected = model.fit(X, y).predict_proba(X)
    names = list("abcd")
    for made in (
        X.tolist(),
        pd.DataFrame(X, columns=names),
        pl.DataFrame(X, schema=names),
    ):
        np.testing.assert_allclose(
            model.fit(made, y).predict_proba(made), expected, atol=1e-12
        )


def test_25_a_model_with_one_column_for_three_classes(data, method):
    X, _ = data
    with pytest.raises(ValueError, match=r"column|classes"):
        wrapped(lambda X: half(X)[:, None], method).fit(X, np.arange(90) % 3)


def test_27_perfect_separation(data, method):
    X, _ = data
    y = (X[:, 0] > 0).astype(int)
    p = wrapped(half, method).fit(X, y).predict_proba(X)
    proper(p)
    assert np.mean((p[:, 1] > 0.5) == y) > 0.97


def test_49_the_global_random_state_is_left_alone(data, method):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    wrapped(half, method).fit(*data).predict_proba(data[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("method", ["sigmoid", "beta"])
def test_52_no_convergence(data, method, monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match="the fit did not converge"):
        fitted = wrapped(half, method, ensemble=False).fit(*data)
    assert fitted.calibrated_classifiers_[0].calibrators[0].converged_ is False


def test_53_row_order_is_irrelevant_in_the_same_folds(data, method):
    X, y = data
    fold, order = np.arange(90) % 3, np.random.default_rng(0).permutation(90)
    model = wrapped(half, method)

    def splits(fold):
        return [
            (np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)
        ]

    expected = model.set_params(cv=splits(fold)).fit(X, y).predict_proba(X)
    shuffled = (
        model.set_params(cv=splits(fold[order]))
        .fit(X[order], y[order])
        .predict_proba(X)
    )
    np.testing.assert_allclose(shuffled, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"method": "magic"}, "method"),
        ({"method": 3}, "method"),
        ({"cv": 1}, "cv|fold"),
        ({"cv": "many"}, "cv"),
        ({"ensemble": "some"}, "ensemble"),
        ({"n_jobs": "all"}, "n_jobs"),
        ({"estimator": "model"}, "estimator|predict_proba|str"),
        ({"method": SplineCalibrator(smoothing=-1.0)}, "smoothing"),
        ({"method": ClippingCalibrator(p_min=2.0)}, "p_min"),
    ],
    ids=str,
)
def test_54_a_wrong_option_is_an_error_that_names_it(data, options, name):
    with pytest.raises((ValueError, TypeError), match=name):
        CalibratedClassifierCV(**({"estimator": GaussianNB(), "cv": 3} | options)).fit(
            *data
        )


def test_55_a_model_of_any_kind_is_no_file_of_ours(data, tmp_path):
    with pytest.raises(
        TypeError,
        match=r"calibrator must be a fitted calibrator .*CalibratedClassifierCV",
    ):
        save(wrapped(half).fit(*data), tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_61_html_in_an_option_is_escaped():
    page = CalibratedClassifierCV(
        GaussianNB(), method="<script>alert(1)</script>"
    )._repr_html_()
    assert "<script>alert(1)" not in page
