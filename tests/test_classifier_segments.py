"""A classifier whose calibrator knows the segments of its rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from calspline import CalibratedClassifierCV

COUNTRIES = np.array(["at", "be", "ch", "de"])


def rows_of(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    x, s, device = rng.normal(size=(n, 2)), rng.integers(0, 4, n), rng.integers(0, 2, n)
    shift = np.array([-1.5, 0.0, 0.5, 1.5])
    y = rng.random(n) < expit(2.0 * x[:, 0] + shift[s] + device)
    return pd.DataFrame(
        {"a": x[:, 0], "b": x[:, 1], "country": COUNTRIES[s], "handset": device}
    ), y


def model():
    return make_pipeline(
        make_column_transformer(("passthrough", ["a", "b"])), LogisticRegression()
    )


@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("by", ["country", ["country", "handset"]])
def test_the_column_is_read_from_x(ensemble, by):
    X, y = rows_of()
    new, y_new = rows_of(seed=1)
    plain = CalibratedClassifierCV(model(), ensemble=ensemble).fit(X, y)
    cal = CalibratedClassifierCV(model(), ensemble=ensemble, by=by).fit(X, y)
    assert (
        log_loss(y_new, cal.predict_proba(new))
        < log_loss(y_new, plain.predict_proba(new)) - 0.02
    )
    table = cal.calibrated_classifiers_[0].calibrators[0].segments_
    assert table["segment"][:4] == COUNTRIES.tolist()
    assert ("column" in table) == isinstance(by, list)
    np.testing.assert_array_equal(cal.predict(new), cal.predict_proba(new)[:, 1] > 0.5)


def test_any_frame_and_arrays_will_do():
    X, y = rows_of(1000)
    wanted = CalibratedClassifierCV(LogisticRegression(), by="handset").fit(
        X[["a", "b", "handset"]], y
    )
    numbers = X[["a", "b", "handset"]].to_numpy()
    p = (
        CalibratedClassifierCV(LogisticRegression(), by=2)
        .fit(numbers, y)
        .predict_proba(numbers)
    )
    np.testing.assert_allclose(p, wanted.predict_proba(X[["a", "b", "handset"]]))
    frame = pl.from_pandas(X[["a", "b", "handset"]])
    p = (
        CalibratedClassifierCV(LogisticRegression(), by="handset")
        .fit(frame, y)
        .predict_proba(frame)
    )
    np.testing.assert_allclose(p, wanted.predict_proba(X[["a", "b", "handset"]]))


def test_a_frozen_model_and_weights_of_zero():
    X, y = rows_of(2000)
    frozen = FrozenEstimator(model().fit(X, y))
    w = (X["country"] != "at").to_numpy().astype(float)
    cal = CalibratedClassifierCV(frozen, by="country").fit(X, y, w)
    assert cal.calibrated_classifiers_[0].calibrators[0].segments_["segment"] == [
        "be",
        "ch",
        "de",
    ]
    with pytest.warns(UserWarning, match="segments that the fit has not seen"):
        assert cal.predict_proba(X).shape == (2000, 2)


def test_it_is_an_ordinary_classifier():
    X, y = rows_of(600)
    search = GridSearchCV(
        CalibratedClassifierCV(model(), cv=2, by="country"),
        {"by": [None, "country"]},
        cv=2,
    )
    search.set_params(scoring="neg_log_loss").fit(X, y)
    assert search.best_params_ == {"by": "country"}
    assert clone(search.best_estimator_).by == "country"


@pytest.mark.parametrize(
    ("by", "frame", "error", "message"),
    [
        (
            "land",
            True,
            ValueError,
            "by must name columns of X; 'land' is none of 'a', 'b', 'country', 'handset'",
        ),
        (
            "handset",
            False,
            TypeError,
            "by must be numbers of columns where X is no data frame; got 'handset'",
        ),
        (
            7,
            False,
            ValueError,
            r"by must be a column of X, whose shape is \(400, 2\); got 7",
        ),
    ],
)
def test_columns_that_are_not_there(by, frame, error, message):
    X, y = rows_of(400)
    with pytest.raises(error, match=message):
        CalibratedClassifierCV(LogisticRegression(), by=by).fit(
            X if frame else X[["a", "b"]].to_numpy(), y
        )


def test_a_method_without_segments_is_an_error():
    X, y = rows_of(400)
    with pytest.raises(
        TypeError,
        match="by needs a calibrator whose fit takes by; SigmoidCalibrator does not",
    ):
        CalibratedClassifierCV(model(), method="sigmoid", by="country").fit(X, y)
