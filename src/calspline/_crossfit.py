"""Scores of held-out rows, by cross-validation or out-of-bag votes."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TextIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.feature_selection import SelectorMixin, VarianceThreshold
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from calspline._arrays import Array, as_numpy
from calspline._formatting import duration, short_list
from calspline._input.class_columns import column_names, order_columns
from calspline._input.scores import ROUNDING, show_outside
from calspline._user_warnings import warn_user

T = TypeVar("T")
ResponseMethod = Literal["predict_proba", "decision_function"]
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class ModelScores:
    """Scores of a fitted model: probabilities or margins.

    ``values`` has a column for each class, or one column for the margins of two
    classes. ``known`` holds the indices of the classes that the model has seen; the
    columns of others have the lowest possible value.
    """

    method: ResponseMethod
    values: NDArray[np.floating[Any]]
    known: NDArray[np.intp]

    @property
    def margins(self) -> bool:
        """Whether these are margins, which need not lie in [0, 1]."""
        return self.method == "decision_function"

    def for_classes(self, classes: NDArray[np.intp]) -> ModelScores:
        """Scores with columns for some of the classes only."""
        if self.values.shape[1] == 1 or len(classes) == self.values.shape[1]:
            return self
        values = self.values[:, classes]
        if self.margins and len(classes) == 2:
            values = values[:, 1:] - values[:, :1]
        elif not self.margins:
            sums = values.sum(axis=1, keepdims=True)
            values = np.where(
                sums > 0.0, values / np.where(sums > 0.0, sums, 1.0), 1.0 / len(classes)
            )
        return ModelScores(self.method, values, np.arange(len(classes)))


def model_scores(
    model: Any, X: Any, methods: tuple[ResponseMethod, ...], classes: NDArray[Any]
) -> ModelScores:
    """Scores by the first of ``methods`` that the model has.

    Classes that the model has not seen get probability 0, or the lowest margin.
    """
    name = type(model).__name__
    method = next((method for method in methods if hasattr(model, method)), None)
    if method is None:
        raise TypeError(
            f"estimator must have predict_proba or decision_function; {name} has "
            "neither"
        )
    said = getattr(model, method)(X)
    raw = as_numpy(said)
    labels = np.asarray(getattr(model, "classes_", classes)).tolist()
    place = {label: j for j, label in enumerate(classes.tolist())}
    known = np.array([place[label] for label in labels], dtype=np.intp)
    if method == "predict_proba" and raw.ndim == 1:
        raw = np.column_stack([1.0 - raw, raw])
    if (
        method == "decision_function"
        and len(known) == 2
        and (raw.ndim == 1 or raw.shape[1] == 1)
    ):
        margin = raw.reshape(-1, 1)
        if len(classes) == 2:
            return ModelScores(method, margin, known)
        raw = np.column_stack([np.zeros_like(margin), margin])
    if raw.ndim != 2 or raw.shape[1] != len(known):
        raise ValueError(
            f"{method} of {name} must give a column for each of {len(known)} classes; "
            f"got shape {raw.shape}"
            + (
                ' (with SVC, use decision_function_shape="ovr")'
                if method == "decision_function"
                else ""
            )
        )
    order = order_columns(
        column_names(said, 2), labels, f"{method} of {name}", known=True
    )
    raw = raw if order is None else raw[:, order]
    if method == "predict_proba":
        raw = _check_probabilities(raw, name)
    if len(known) == len(classes) and np.all(np.diff(known) > 0):
        return ModelScores(method, raw, known)
    least = 0.0 if method == "predict_proba" or not raw.size else raw.min()
    values = np.full(
        (len(raw), len(classes)),
        least,
        dtype=raw.dtype if raw.dtype.kind == "f" else np.float64,
    )
    values[:, known] = raw
    return ModelScores(method, values, np.sort(known))


@dataclass(frozen=True)
class Training:
    """Data for fitting models and calibrators.

    ``codes`` are indices into ``classes``, and ``groups`` the codes of groups of
    dependent rows, if there are any. ``rows`` are those with positive weight.
    ``params`` are passed to the model's ``fit``; those with one value per row are
    indexed like the rows. ``segments`` are columns for the calibrator, if any.
    """

    X: Any
    y: NDArray[Any]
    classes: NDArray[Any]
    codes: NDArray[np.intp]
    weight: Array | None
    groups: NDArray[np.intp] | None
    rows: Rows
    params: dict[str, Any]
    methods: tuple[ResponseMethod, ...]
    segments: Any = None

    def fit(self, estimator: Any, rows: Rows | None = None) -> Any:
        """Fit a copy of ``estimator`` to some rows, by default to all."""
        rows = self.rows if rows is None else rows
        model = clone(estimator)
        split = self.params.get("eval_set")
        if callable(split) or hasattr(split, "split"):
            params = {
                name: value for name, value in self.params.items() if name != "eval_set"
            }
            rows, held_out = self._inner_split(split, rows)
            X, y = self._labelled(held_out)
            # LightGBM from 4.7 on has other names for it.
            params |= (
                {"eval_X": X, "eval_y": y}
                if has_fit_parameter(model, "eval_X")
                else {"eval_set": [(X, y)]}
            )
            return replace(self, params=params).fit(estimator, rows)
        if np.array_equal(rows, np.arange(len(self.y))):
            return model.fit(self.X, self.y, **self.params)
        params = {
            name: self.param_for(value, rows) for name, value in self.params.items()
        }
        X, y = self._labelled(rows)
        return model.fit(X, y, **params)

    def _labelled(self, rows: Rows) -> tuple[Any, NDArray[Any]]:
        return _safe_indexing(self.X, rows), self.y[rows]

    def _inner_split(self, split: Any, rows: Rows) -> tuple[Rows, Rows]:
        """Split rows into those to fit a model to and those for early stopping."""
        X, y = self._labelled(rows)
        groups = {} if self.groups is None else {"groups": self.groups[rows]}
        train, held_out = (
            next(iter(split.split(X, y, **groups)))
            if hasattr(split, "split")
            else split(X, y)
        )
        if not len(train) or not len(held_out) or np.isin(held_out, train).any():
            raise ValueError(
                "eval_set must split rows into two parts that hold some each, and none "
                "in common"
            )
        return rows[np.asarray(train)], rows[np.asarray(held_out)]

    def fit_fold(self, estimator: Any, train: Rows, test: Rows, *, keep: bool) -> Fold:
        """Fit a model to some rows, and score others."""
        model = self.fit(estimator, train)
        return Fold(model if keep else None, test, self.scores(model, test))

    def scores(self, model: Any, rows: Rows) -> ModelScores:
        """Score some rows with a fitted model."""
        return model_scores(
            model, _safe_indexing(self.X, rows), self.methods, self.classes
        )

    def param_for(self, value: Any, rows: Rows) -> Any:
        """Parameter for some rows, indexed if it has one value per row."""
        if isinstance(value, (str, bytes, dict)):
            return value
        try:
            length = value.shape[0] if hasattr(value, "shape") else len(value)
        except (TypeError, IndexError):
            return value
        return _safe_indexing(value, rows) if length == len(self.y) else value


@dataclass(frozen=True)
class Fold:
    """A fitted model with the scores of held-out rows.

    ``share`` holds shares of the rows' weights, if these are not 1.
    """

    model: Any
    rows: Rows
    scores: ModelScores
    share: Array | None = None

    def of(self, able: NDArray[np.bool_]) -> Fold:
        """Select some of the rows."""
        if able.all():
            return self
        scores = replace(self.scores, values=self.scores.values[able])
        return replace(
            self,
            rows=self.rows[able],
            scores=scores,
            share=None if self.share is None else self.share[able],
        )


def pool(folds: list[Fold], model: Any = None) -> Fold:
    """Combine the scores of all folds.

    A row that is scored several times (repeated splits) gets shares of its weight.
    """
    rows = np.concatenate([fold.rows for fold in folds])
    by_row = np.argsort(rows, kind="stable")
    values = np.concatenate([fold.scores.values for fold in folds])[by_row]
    known = np.unique(np.concatenate([fold.scores.known for fold in folds]))
    rows = rows[by_row]
    times = np.bincount(rows)[rows]
    scores = ModelScores(folds[0].scores.method, values, known)
    return Fold(model, rows, scores, None if np.all(times == 1) else 1.0 / times)


DEFAULT_FOLDS = 5
K_FOLDS = KFold, StratifiedKFold, GroupKFold, StratifiedGroupKFold


def split_rows(
    training: Training, cv: Any, params: dict[str, Any], *, every_class: bool
) -> list[tuple[Rows, Rows]]:
    """Training and test rows of each fold.

    With ``every_class``, test rows must be able to show every class.
    """
    y = training.y[training.rows]
    fewest = int(np.unique(y, return_counts=True)[1].min())
    if cv is None:
        cv = min(DEFAULT_FOLDS, fewest) if fewest > 1 else DEFAULT_FOLDS
    n_folds = 0
    if isinstance(cv, int):
        n_folds = cv
    elif isinstance(cv, K_FOLDS):
        n_folds = cv.n_splits
    if fewest < n_folds:
        raise ValueError(
            f"Requesting {n_folds}-fold cross-validation but provided less than "
            f"{n_folds} examples "
            "for at least one class."
        )
    if every_class and isinstance(cv, LeaveOneOut):
        raise ValueError(
            "LeaveOneOut cross-validation does not allow all classes to be present in "
            "test splits; "
            "use folds of several rows, or ensemble=False"
        )
    if isinstance(cv, int) and "groups" in params:
        n_groups = 0
        if training.groups is not None:
            n_groups = len(np.unique(training.groups[training.rows]))
        if n_groups < 2:
            raise ValueError(
                f"groups must have at least two groups that count; got {n_groups}"
            )
        cv = StratifiedGroupKFold(min(cv, n_groups))
    splitter = check_cv(cv, y, classifier=True)
    if hasattr(cv, "split") or not isinstance(cv, Iterable):
        X = _safe_indexing(training.X, training.rows)
        params = {
            name: training.param_for(value, training.rows)
            for name, value in params.items()
        }
        found = [
            (training.rows[train], training.rows[test])
            for train, test in splitter.split(X, y, **params)
        ]
    else:
        every = np.arange(len(training.y))
        given = (
            (every[np.asarray(train)], every[np.asarray(test)])
            for train, test in splitter.split()
        )
        counts = np.isin(every, training.rows)
        found = [(train[counts[train]], test[counts[test]]) for train, test in given]
    if not found:
        raise ValueError("cv must give at least one split")
    return found


def fit_folds(
    estimator: Any,
    training: Training,
    splits: list[tuple[Rows, Rows]],
    *,
    refit: bool,
    n_jobs: int | None,
    show: bool,
) -> list[Fold]:
    """Fit a model to the training rows of each split, and score the test rows.

    With ``refit``, the result is a single fold: a model fitted to all rows, with the
    scores of all folds.
    """
    jobs = [
        delayed(training.fit_fold)(estimator, train, test, keep=not refit)
        for train, test in splits
    ]
    if refit:
        jobs.append(delayed(training.fit)(estimator))
    results: Iterator[Any] = Parallel(n_jobs=n_jobs, return_as="generator")(jobs)
    done = list(show_progress(results, len(jobs), "models fitted", show=show))
    folds = _of_known_classes(done[:-1] if refit else done, training, refit=refit)
    return [pool(folds, done[-1])] if refit else folds


def _of_known_classes(
    folds: list[Fold], training: Training, *, refit: bool
) -> list[Fold]:
    """Drop rows of classes that the model of their fold has not seen."""
    strange: dict[int, list[int]] = {}
    kept = []
    for number, fold in enumerate(folds, 1):
        codes = training.codes[fold.rows]
        able = np.isin(codes, fold.scores.known)
        needed = (
            refit or len(fold.scores.known) > 1
        )  # a model of one class has no calibrator
        for code in np.unique(codes[~able]).tolist() if needed else []:
            strange.setdefault(code, []).append(number)
        kept.append(fold.of(able))
    if strange:
        labels = training.classes.tolist()
        shown = "; ".join(
            f"{labels[code]!r} by the model of fold {short_list(folds, 5)}"
            for code, folds in strange.items()
        )
        left = np.unique(np.concatenate([training.codes[fold.rows] for fold in kept]))
        if len(left) < 2:
            raise ValueError(
                "cv must give folds whose models see the classes they score; not "
                f"seen: {shown}. Too few rows are left "
                "to calibrate on; shuffle the rows, or use stratified folds"
            )
        warn_user(
            "some classes were not among the rows that a fold's model was fitted on: "
            f"{shown}. Their rows there are "
            "not used for calibration; use stratified folds, or more rows of these "
            "classes"
        )
    return kept


def fit_out_of_bag(estimator: Any, training: Training) -> Fold:
    """Fit once to all rows, and score each row by trees that did not draw it.

    Rows that every tree drew are left out.
    """
    # The bagging estimator is the estimator itself, or the last step of a pipeline.
    *before, (last, _) = (
        estimator.steps if isinstance(estimator, Pipeline) else [("", estimator)]
    )
    prefix = f"{last}__" if last else ""
    model = clone(estimator)
    params = model.get_params()
    if f"{prefix}oob_score" not in params:
        raise ValueError(
            'cv="oob" needs a bagging estimator, one with the parameter oob_score, '
            "such as RandomForestClassifier or "
            f"BaggingClassifier; got {type(model).__name__}"
        )
    if params.get(f"{prefix}bootstrap") is False:
        raise ValueError(
            'cv="oob" needs trees that leave rows out; set bootstrap=True on the '
            "estimator"
        )
    supervised = [type(step).__name__ for _, step in before if _sees_labels(step)]
    if supervised:
        warn_user(
            f'cv="oob" lets {", ".join(supervised)} see the labels of every row, so '
            "that the out-of-bag votes are too "
            "good: use folds, such as cv=5, or fit such steps inside the bagging "
            "estimator"
        )
    model.set_params(**{f"{prefix}oob_score": True})
    with warnings.catch_warnings():
        # Rows without a vote are dealt with below.
        warnings.filterwarnings(
            "ignore", message="Some inputs do not have OOB scores", category=UserWarning
        )
        warnings.filterwarnings(
            "ignore", message="invalid value encountered in", category=RuntimeWarning
        )
        fitted = training.fit(model)
    bagged = fitted[-1] if isinstance(fitted, Pipeline) else fitted
    votes: Array = np.asarray(bagged.oob_decision_function_, dtype=np.float64)
    voted = np.isfinite(votes).all(axis=1) & (votes.sum(axis=1) > 0.0)
    if not voted.any():
        raise ValueError(
            'cv="oob" found no row that some tree did not draw; use more trees, or '
            "folds"
        )
    known = np.arange(len(training.classes))
    return Fold(
        fitted, training.rows[voted], ModelScores("predict_proba", votes[voted], known)
    )


def _sees_labels(step: Any) -> bool:
    """Whether the ``fit`` of a pipeline step requires labels."""
    if not hasattr(step, "fit"):
        return False
    selects = isinstance(step, SelectorMixin) and not isinstance(
        step, VarianceThreshold
    )
    return selects or bool(get_tags(step).target_tags.required)


def show_progress(
    results: Iterable[T],
    total: int,
    what: str,
    *,
    show: bool,
    stream: TextIO | None = None,
) -> Iterator[T]:
    """Pass results on, showing their number and the remaining time.

    The line is overwritten. Nothing is written to a pipe or a log, or if ``show`` is
    false.
    """
    stream = sys.stderr if stream is None else stream
    # A notebook's streams are not terminals, but are shown as they are written.
    if not show or not (
        stream.isatty() or type(stream).__module__.partition(".")[0] == "ipykernel"
    ):
        yield from results
        return
    start = time.monotonic()
    width = 0
    try:
        for done, result in enumerate(results, 1):
            left = (time.monotonic() - start) / done * (total - done)
            line = f"{what}: {done} of {total}" + (
                f", about {duration(left)} left" if done < total else ""
            )
            print("\r" + line.ljust(width), end="", file=stream, flush=True)
            width = len(line)
            yield result
    finally:
        print(file=stream, flush=True)


def _check_probabilities(
    values: NDArray[np.floating[Any]], model: str
) -> NDArray[np.floating[Any]]:
    """Check the result of ``predict_proba``, and correct rounding errors."""
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return values  # which every calibrator checks
    clipped = np.clip(values, 0.0, 1.0)
    outside = np.abs(values - clipped) > ROUNDING
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"predict_proba of {model} must give probabilities in [0, 1]; row {row} of "
            "those it was asked about has "
            f"{show_outside(values[row, column])}. {outside.any(axis=1).sum()} of "
            f"{len(values)} rows are outside"
        )
    return np.asarray(clipped)
