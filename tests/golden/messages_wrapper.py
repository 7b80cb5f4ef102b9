"""Bad input to CalibratedClassifierCV, and models that talk nonsense."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from tests.golden import data
from tests.golden.bad_input import (
    NEW,
    THREES,
    Book,
    N,
    bad_groups,
    bad_weights,
    in_one_step,
    pairs,
    put,
)

from calspline import CalibratedClassifierCV, save

NONSENSE = (
    (1, "NaN", np.nan),
    (2, "infinite", np.inf),
    (3, "outside [0, 1]", [-0.5, 1.5]),
    ("3b", "outside [0, 1]", [1.2, -0.2]),
    (40, "a row sums to too much", 0.9),
    (41, "a negative entry", [-0.1, 1.1]),
    (42, "a row of zeros", 0.0),
)
"""What a model says of its first row."""
WRONG_OPTIONS: tuple[dict[str, Any], ...] = (
    {"method": "magic"},
    {"cv": 1},
    {"cv": "many"},
    {"cv": "oob"},
    {"ensemble": "some"},
)


class Saying(ClassifierMixin, BaseEstimator):
    """A model whose probabilities are a function of the features."""

    def __init__(self, say: Any) -> None:
        self.say = say

    def fit(self, X: Any, y: Any) -> Saying:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        p = self.say(X)
        return np.column_stack([1.0 - p, p]) if p.ndim == 1 else p


def half(X: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-X[:, 0]))


def saying(first_row: Any) -> Saying:
    def say(X: Any) -> Any:
        p = pairs(half(X))
        p[0] = first_row
        return p

    return Saying(say)


def features(n: int = N, m: int = 2) -> tuple[Any, Any]:
    """Features and labels of ``m`` classes."""
    y = np.arange(n) % m
    return data.normal(430 + m, n, 4) + np.eye(4)[y], y


X, Y = features()
X3, Y3 = features(N, 3)


def fit(
    method: str,
    model: Any,
    X: Any = X,
    y: Any = Y,
    weight: Any = None,
    *,
    groups: Any = None,
    cv: Any = 3,
) -> Any:
    wrapper = CalibratedClassifierCV(model, method=method, cv=cv)
    return wrapper.fit(X, y, weight, groups=groups)


def write(book: Book) -> None:
    for method in ("spline", "isotonic"):
        write_models(book, method)
        write_rows(book, method)
    plain = CalibratedClassifierCV(GaussianNB())
    book.add(6, "features of three dimensions", plain.fit, np.ones((N, 2, 2)), Y)
    book.add(7, "complex features", plain.fit, X + 0j, Y)
    book.add(8, "features that are texts", plain.fit, [["a"] * 4] * N, Y)
    book.add(9, "sparse features", plain.fit, sparse.csr_array(X), Y)
    unfitted = CalibratedClassifierCV(GaussianNB())
    book.add(46, "predict before fit", unfitted.predict_proba, X)
    for method in ("sigmoid", "beta"):
        book.add(52, f"{method}: one step", in_one_step, fit, method, GaussianNB())
    for options in WRONG_OPTIONS:
        wrong = CalibratedClassifierCV(GaussianNB(), **options)
        book.add(54, str(options), wrong.fit, X, Y)
    write_segments(book)

    def save_wrapper() -> None:
        save(CalibratedClassifierCV(GaussianNB()).fit(X, Y), "model.json")

    book.add(55, "a wrapper to save", save_wrapper)


def write_models(book: Book, method: str) -> None:
    """Models whose probabilities are none, or not of their classes."""
    call = partial(fit, method)
    for number, what, first_row in NONSENSE:
        book.add(number, f"{method}: {what}", call, saying(first_row))
    reversed_model = Saying(lambda X: half(-X))
    many, y_many = features(600)
    book.add(
        "3c", f"{method}: a reversed model", call, reversed_model, many, y_many == 0
    )
    book.add(13, f"{method}: equal scores", call, DummyClassifier())
    one_column = Saying(lambda X: half(X)[:, None])
    book.add(25, f"{method}: one column for three classes", call, one_column, X3, Y3)
    stranger = FrozenEstimator(GaussianNB().fit(X3, Y3 + 1))
    what = f"{method}: a class that the model does not know"
    book.add("29a", what, call, stranger, X3, Y3)
    naming = Saying(named_columns)
    book.add("29b", f"{method}: names of some classes", call, naming, X3, Y3)
    shuffled = Saying(lambda X: softmax(3.0 * X[:, [1, 2, 0]], axis=1))
    book.add("29c", f"{method}: shuffled columns", call, shuffled, *features(600, 3))
    narrow = FrozenEstimator(GaussianNB().fit(X, Y))
    book.add(45, f"{method}: other features", call, narrow, X[:, :2])


def named_columns(X: Any) -> Any:
    return pd.DataFrame(np.full((len(X), 3), 1 / 3), columns=["0", "1", "other"])


def write_rows(book: Book, method: str) -> None:
    """Rows, labels, weights and groups that are refused; folds that lack a class."""
    call, model = partial(fit, method), GaussianNB()
    book.add(4, f"{method}: no rows", call, model, X[:0], Y[:0])
    book.add(16, f"{method}: one row", call, model, X[:1], Y[:1])
    book.add(20, f"{method}: a label is None", call, model, X, put(Y, 2, None))
    book.add(21, f"{method}: one class", call, model, X, ["yes"] * N)
    book.add(24, f"{method}: continuous labels", call, model, X, X[:, 0])
    book.add(26, f"{method}: labels too short", call, model, X, Y[1:])
    for number, what, weight in bad_weights():
        book.add(number, f"{method}: {what}", call, model, weight=weight)
    folds, order = KFold(3), np.argsort(Y3, kind="stable")
    what = f"{method}: a class missing from a fold"
    book.add(43, what, call, model, X3[order], Y3[order], cv=folds)
    late = np.where(np.arange(N) >= 40, Y3, Y3 % 2)
    book.add(43, f"{method}: a class of one fold only", call, model, X3, late, cv=folds)
    two_rows = (np.arange(N) < 2).astype(int)
    book.add(44, f"{method}: two rows of a class", call, model, X, two_rows)
    for number, what, groups in bad_groups():
        book.add(number, f"{method}: {what}", call, model, groups=groups)


def write_segments(book: Book) -> None:
    with_segments = np.column_stack([X, THREES])

    def by(column: Any, **options: Any) -> Any:
        wrapper = CalibratedClassifierCV(GaussianNB(), by=column, **options)
        return wrapper.fit(with_segments, Y)

    def predict_new() -> Any:
        return by(4).predict_proba(np.column_stack([X, NEW]))

    def predict_texts() -> Any:
        frame = pd.DataFrame(X, columns=list("abcd")).assign(s=THREES)
        model = Saying(lambda X: half(X[list("abcd")].to_numpy()))
        wrapper = CalibratedClassifierCV(model, by="s").fit(frame, Y)
        return wrapper.predict_proba(frame.assign(s=THREES.astype(str)))

    book.add("54a", "segments of a column that is not there", by, 9)
    book.add("54d", "segments never seen", predict_new)
    book.add(54, "segments for a sigmoid", by, 4, method="sigmoid")
    book.add("54f", "texts for numbers", predict_texts)
