"""The contract for CalibratedClassifierCV, with both ways of using the folds."""

import pickle
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB

from calspline import CalibratedClassifierCV


@pytest.fixture(params=["spline", "beta"])
def method(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["one model", "ensemble"])
def wrapper(request, method):
    return CalibratedClassifierCV(
        GaussianNB(), method=method, ensemble=request.param, cv=3
    )


@pytest.fixture(scope="module")
def data():
    return make_classification(90, 4, n_informative=3, n_redundant=0, random_state=1)


@pytest.fixture(scope="module")
def three():
    return make_classification(
        120, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=1
    )


class Saying(ClassifierMixin, BaseEstimator):
    """A model that says what it is told to."""

    def __init__(self, what):
        self.what = what

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = np.tile([0.4, 0.6], (len(X), 1)) + 0.1 * np.tanh(X[:, :1]) * [1, -1]
        p[0] = self.what
        return p


def test_04_no_rows(wrapper, data):
    with pytest.raises(
        ValueError, match="y must have at least two classes; there are no rows"
    ):
        wrapper.fit(data[0][:0], data[1][:0])


def test_10_exact_0_and_1_never_come_out(data, method):
    X, y = data

    class Sure(Saying):
        def predict_proba(self, X):
            p = (X[:, 0] > 0).astype(float)
            return np.column_stack([1 - p, p])

    p = (
        CalibratedClassifierCV(Sure(None), method=method, cv=3)
        .fit(X, y)
        .predict_proba(X)
    )
    assert np.all((p > 0) & (p < 1))


def test_26_lengths(wrapper, data):
    with pytest.raises(ValueError, match=r"\[90, 89\]"):
        wrapper.fit(data[0], data[1][1:])


def test_28_29_a_series_counts_by_position(wrapper, data):
    X, y = data
    expected = wrapper.fit(X, y).predict_proba(X)
    shuffled = pd.Series(y, index=np.random.default_rng(0).permutation(len(y)) + 5)
    np.testing.assert_array_equal(wrapper.fit(X, shuffled).predict_proba(X), expected)


def test_33_rows_of_weight_zero_are_absent(wrapper, data):
    X, y = data
    w = np.random.default_rng(0).integers(0, 3, 90).astype(float)
    there = w > 0
    some = wrapper.fit(X, y, sample_weight=w).predict_proba(X)
    np.testing.assert_allclose(
        some,
        wrapper.fit(X[there], y[there], sample_weight=w[there]).predict_proba(X),
        atol=1e-9,
    )


def test_34_integer_weights_are_repetitions_in_the_same_folds(wrapper, data):
    X, y = data
    w = np.random.default_rng(0).integers(1, 3, 90)
    fold = np.arange(90) % 3
    wrapper.set_params(
        cv=[(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    )
    weighted = wrapper.fit(X, y, sample_weight=w.astype(float)).predict_proba(X)
    fold = np.repeat(fold, w)
    wrapper.set_params(
        cv=[(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    )
    np.testing.assert_allclose(
        wrapper.fit(np.repeat(X, w, axis=0), np.repeat(y, w)).predict_proba(X),
        weighted,
        atol=1e-7,
    )


def test_36_37_38_read_only_and_strided_input_is_left_as_it_was(wrapper, data):
    X, y = data
    w = np.linspace(0.5, 2, 90)
    expected = wrapper.fit(X, y, sample_weight=w).predict_proba(X)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    copies = wide.copy(), y.copy(), w.copy()
    for array in (wide, y, w):
        array.flags.writeable = False
    try:
        np.testing.assert_array_equal(
            wrapper.fit(wide, y, sample_weight=w).predict_proba(wide), expected
        )
    finally:
        y.flags.writeable = True
    for array, copy in zip((wide, y, w), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_43_a_class_missing_from_a_fold(wrapper):
    rng = np.random.default_rng(0)
    y = np.r_[np.arange(40) % 2, np.full(20, 2)]
    X = rng.normal(size=(60, 3)) + 2 * np.eye(3)[y]
    wrapper.set_params(cv=KFold(3))
    with pytest.warns(
        UserWarning,
        match=r"was fitted on: 2 by the model of fold 3\. Their rows there are",
    ):
        p = wrapper.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.all(p >= 0)


def test_43_folds_whose_models_see_none_of_the_classes_they_score(wrapper):
    # Before, every row calibrated with a class of probability 0: accuracy 0.
    y = np.repeat([0, 1, 2], 20)
    X = np.random.default_rng(0).normal(size=(60, 3)) + 2 * np.eye(3)[y]
    with pytest.raises(
        ValueError,
        match=r"cv must give folds whose models see the classes .*0 by the model of fold 1",
    ):
        wrapper.set_params(cv=KFold(3)).fit(X, y)


def test_44_fewer_rows_of_a_class_than_folds(wrapper, data):
    X, y = data
    rows = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:2]]
    with pytest.raises(
        ValueError,
        match="Requesting 3-fold cross-validation but provided less than 3 examples",
    ):
        wrapper.fit(X[rows], y[rows])


def test_45_a_frozen_model_of_other_features(method, data):
    X, y = data
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    with pytest.raises(
        ValueError, match="X has 2 features, but GaussianNB is expecting 4"
    ):
        CalibratedClassifierCV(frozen, method=method).fit(X[:, :2], y)


def test_46_predicting_before_fitting(wrapper, data):
    with pytest.raises(NotFittedError):
        wrapper.predict_proba(data[0])


def test_47_48_refits_clones_and_pickles(wrapper, data, three):
    expected = clone(wrapper).fit(*data).predict_proba(data[0])
    np.testing.assert_array_equal(
        wrapper.fit(*three).fit(*data).predict_proba(data[0]), expected
    )
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(wrapper)).predict_proba(data[0]), expected
    )


@pytest.mark.process
def test_50_any_number_of_jobs(wrapper, three):
    one = wrapper.fit(*three).predict_proba(three[0])
    np.testing.assert_array_equal(
        wrapper.set_params(n_jobs=2).fit(*three).predict_proba(three[0]), one
    )


@pytest.mark.slow
def test_51_sixteen_threads_agree(wrapper, three):
    wrapper.fit(*three)
    expected, found = wrapper.predict_proba(three[0]), []
    threads = [
        threading.Thread(target=lambda: found.append(wrapper.predict_proba(three[0])))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    for p in found:
        np.testing.assert_array_equal(p, expected)
