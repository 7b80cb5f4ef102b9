"""What a model's scores, its columns, weights, groups and segments mean to CalibratedClassifierCV."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from tests.faults.wrapper.test_scores_and_rows import Through, half, proper

from calspline import CalibratedClassifierCV, SplineCalibrator

METHODS = ["spline", "beta"]
THREES = np.arange(90) % 3
SPLITS = [
    (np.flatnonzero(np.arange(90) % 3 != k), np.arange(k, 90, 3)) for k in range(3)
]


@pytest.fixture(params=METHODS)
def method(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["one model", "ensemble"])
def ensemble(request):
    return request.param


def rows(n, n_classes=2):
    return make_classification(n, 4, n_informative=3, n_redundant=0, n_classes=n_classes, n_clusters_per_class=1,
                               random_state=1)  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return rows(90)


def test_03c_a_model_that_is_upside_down(method, ensemble):
    X, y = rows(600)
    model = GaussianNB().fit(X, y)
    wrapper = CalibratedClassifierCV(
        Through(lambda X: 1 - model.predict_proba(X)[:, 1]),
        method=method,
        ensemble=ensemble,
        cv=3,
    )
    with pytest.warns(UserWarning, match="scores are lower where the class is 1"):
        proper(wrapper.fit(X, y).predict_proba(X))


def test_29a_rows_that_do_not_show_the_last_of_the_models_classes(method):
    X, y = rows(120, 3)
    seen = y < 2
    found, plain = (
        CalibratedClassifierCV(
            FrozenEstimator(GaussianNB().fit(X, y + first)), method=method
        ).fit(X[seen], y[seen] + first)
        for first in (1, 0)
    )
    assert found.classes_.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(found.predict_proba(X), plain.predict_proba(X))
    assert np.mean(found.predict(X[seen]) == y[seen] + 1) > 0.5


@pytest.mark.parametrize("kind", [float, bool])
def test_29b_classes_of_a_fitted_model_that_are_equal_by_value(data, method, kind):
    X, y = data
    expected = CalibratedClassifierCV(
        FrozenEstimator(GaussianNB().fit(X, y)), method=method
    ).fit(X, y)
    found = CalibratedClassifierCV(
        FrozenEstimator(GaussianNB().fit(X, y.astype(kind))), method=method
    ).fit(X, y)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    with pytest.raises(
        ValueError,
        match="y must have classes that the frozen estimator knows; row 0 is",
    ):
        found.fit(X, y.astype(str))


@pytest.mark.parametrize("names", [[1, 0], ["1", "0"], ["p_1.0", "p_0.0"]], ids=str)
def test_29b_a_model_that_says_which_column_is_whose(data, method, names):
    # Before, names were ignored, and the columns taken in their order.
    class Naming(Through):
        def predict_proba(self, X):
            return pd.DataFrame(super().predict_proba(X)[:, ::-1], columns=names)

    found, expected = (
        CalibratedClassifierCV(each(half), method=method, cv=3).fit(*data)
        for each in (Naming, Through)
    )
    np.testing.assert_array_equal(
        found.predict_proba(data[0]), expected.predict_proba(data[0])
    )


def test_29b_a_model_that_names_some_of_its_classes():
    class Naming(Through):
        def predict_proba(self, X):
            return pd.DataFrame(
                np.full((len(X), 3), 1 / 3), columns=["0", "1", "other"]
            )

    with pytest.raises(
        ValueError,
        match="columns of predict_proba of Naming must be named after the classes, or none",
    ):
        CalibratedClassifierCV(Naming(half), cv=3).fit(*rows(90, 3))


def test_29c_a_model_whose_columns_are_shuffled(method, ensemble):
    X, y = rows(600, 3)
    model = GaussianNB().fit(X, y)
    wrapper = CalibratedClassifierCV(
        Through(lambda X: model.predict_proba(X)[:, [1, 2, 0]]),
        method=method,
        ensemble=ensemble,
        cv=3,
    )
    with pytest.warns(UserWarning, match="right in .*less often than by chance"):
        proper(wrapper.fit(X, y).predict_proba(X))


WEIGHT = np.random.default_rng(0).uniform(0.5, 1.5, 90)


def test_35b_of_importance_only_ratios_count(data, ensemble):
    spline = SplineCalibrator(weights="importance")
    wrapper = CalibratedClassifierCV(
        Through(half), method=spline, ensemble=ensemble, cv=3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [
            wrapper.fit(*data, scale * WEIGHT).predict_proba(data[0])
            for scale in (1.0, 1e-9, 1e9)
        ]
    for p in found[1:]:
        np.testing.assert_allclose(p, found[0], rtol=0, atol=1e-9)


def test_54b_one_group(data):
    for model in (GaussianNB(), FrozenEstimator(GaussianNB().fit(*data))):
        with pytest.raises(
            ValueError, match="groups must have at least two groups that count"
        ):
            CalibratedClassifierCV(model, cv=3).fit(*data, groups=np.zeros(90))


def test_54c_groups_of_one_row_are_as_without_in_the_same_folds(data, method, ensemble):
    wrapper = CalibratedClassifierCV(
        GaussianNB(), method=method, ensemble=ensemble, cv=SPLITS
    )
    found = wrapper.fit(*data, groups=np.arange(90)).predict_proba(data[0])
    np.testing.assert_array_equal(found, wrapper.fit(*data).predict_proba(data[0]))


def frame(data, segment):
    return pd.DataFrame(data[0], columns=list("abcd")).assign(s=pd.Series(segment))


def segmented(data, segment, **options):
    wrapper = CalibratedClassifierCV(
        Through(lambda X: half(X[list("abcd")].to_numpy())), cv=3, by="s", **options
    )
    return wrapper.fit(frame(data, segment), data[1])


@pytest.mark.parametrize("strange", [None, "never"])
def test_54a_54d_none_and_a_segment_never_seen_get_the_common_curve_with_a_warning(
    data, strange
):
    names = np.array(["x", "y", "z"], dtype=object)[THREES]
    model = segmented(data, np.where(np.arange(90) % 4, names, None), ensemble=False)
    new = np.where(np.arange(90) < 7, strange, names)
    with pytest.warns(
        UserWarning, match="7 of 90 rows are of segments that the fit has not seen"
    ) as caught:
        found = model.predict_proba(frame(data, new))
    assert len(caught) == 1
    common = (
        model.calibrated_classifiers_[0].calibrators[0].predict_proba(half(data[0])[:7])
    )
    np.testing.assert_array_equal(found[:7], common)


def test_54e_segments_of_one_row_and_of_one_class(data, ensemble):
    for segment in (np.arange(90), np.where((data[1] == 1) & (THREES == 0), 3, THREES)):
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message=".*segments that the fit has not seen"
            )  # of other folds
            proper(
                segmented(data, segment, ensemble=ensemble).predict_proba(
                    frame(data, segment)
                )
            )


def test_54f_segments_of_another_type(data, ensemble):
    model = segmented(data, THREES, ensemble=ensemble)
    expected = model.predict_proba(frame(data, THREES))
    np.testing.assert_array_equal(
        model.predict_proba(frame(data, THREES.astype(float))), expected
    )
    with pytest.raises(
        TypeError,
        match=r"by must have labels like those of the fit \(numbers, such as 0\)",
    ):
        model.predict_proba(frame(data, THREES.astype(str)))
