"""Models fitted on folds, and what each says of the rows it has not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from calspline.crossfit.progress import watched
from calspline.crossfit.responses import ModelScores, Reading, read_scores

Rows = NDArray[np.intp]

DEFAULT_FOLDS = 5
K_FOLDS = KFold, StratifiedKFold, GroupKFold, StratifiedGroupKFold


@dataclass(frozen=True)
class Training:
    """What a model is fitted on. ``rows`` are those that count: the others have weight zero.

    ``params`` go to the model's ``fit``; those with a value for each row are cut as the rows are.
    """

    X: Any
    y: NDArray[Any]
    classes: NDArray[Any]
    rows: Rows
    params: dict[str, Any]
    order: tuple[Reading, ...]

    def __len__(self) -> int:
        return len(self.y)

    def fit(self, estimator: Any, rows: Rows | None = None) -> Any:
        """A copy of ``estimator`` fitted on some rows, by default on all that count."""
        rows = self.rows if rows is None else rows
        model = clone(estimator)
        if len(rows) == len(self) and np.array_equal(rows, np.arange(len(self))):
            return model.fit(self.X, self.y, **self.params)
        params = {name: self.cut(value, rows) for name, value in self.params.items()}
        return model.fit(_safe_indexing(self.X, rows), self.y[rows], **params)

    def read(self, model: Any, rows: Rows) -> ModelScores:
        """What a fitted model says of some rows."""
        return read_scores(model, _safe_indexing(self.X, rows), self.order, self.classes)

    def cut(self, value: Any, rows: Rows) -> Any:
        """A parameter's values for some rows, if it has one for each."""
        if isinstance(value, (str, bytes, dict)):
            return value
        try:
            length = value.shape[0] if hasattr(value, "shape") else len(value)
        except (TypeError, IndexError):
            return value
        return _safe_indexing(value, rows) if length == len(self) else value


@dataclass(frozen=True)
class Fold:
    """A model, the rows it has not seen, and what it says of them."""

    model: Any
    rows: Rows
    scores: ModelScores


def splits(training: Training, cv: Any, params: dict[str, Any], *, every_class: bool) -> list[tuple[Rows, Rows]]:
    """Rows to train and to score, of each fold.

    ``every_class`` asks that each fold's scored rows can show every class.
    """
    y = training.y[training.rows]
    fewest = int(np.unique(y, return_counts=True)[1].min())
    if cv is None:
        cv = min(DEFAULT_FOLDS, fewest) if fewest > 1 else DEFAULT_FOLDS
    n_folds = cv if isinstance(cv, int) else cv.n_splits if isinstance(cv, K_FOLDS) else 0
    if fewest < n_folds:
        raise ValueError(
            f"Requesting {n_folds}-fold cross-validation but provided less than {n_folds} examples "
            "for at least one class."
        )
    if every_class and isinstance(cv, LeaveOneOut):
        raise ValueError(
            "LeaveOneOut cross-validation does not allow all classes to be present in test splits; "
            "use folds of several rows, or ensemble=False"
        )
    splitter = check_cv(cv, y, classifier=True)
    if hasattr(cv, "split") or not isinstance(cv, Iterable):
        X = _safe_indexing(training.X, training.rows)
        params = {name: training.cut(value, training.rows) for name, value in params.items()}
        found = [(training.rows[train], training.rows[test]) for train, test in splitter.split(X, y, **params)]
    else:
        found = [_present(training, train, test) for train, test in splitter.split()]
    if not found:
        raise ValueError("cv must give at least one split")
    return found


def _present(training: Training, train: Any, test: Any) -> tuple[Rows, Rows]:
    """A given split without the rows that do not count."""
    every = np.arange(len(training))
    train, test = every[np.asarray(train)], every[np.asarray(test)]
    return train[np.isin(train, training.rows)], test[np.isin(test, training.rows)]


def fit_folds(
    estimator: Any, training: Training, folds: list[tuple[Rows, Rows]], *, refit: bool, n_jobs: int | None, show: bool
) -> tuple[list[Fold], Any]:
    """Fit a model on each fold and read the rest; with ``refit``, then one on all rows.

    Where the last model is all that is wanted, those of the folds are not kept.
    """
    jobs = [delayed(_fold)(estimator, training, train, test, keep=not refit) for train, test in folds]
    if refit:
        jobs.append(delayed(training.fit)(estimator))
    results: Iterator[Any] = Parallel(n_jobs=n_jobs, return_as="generator")(jobs)
    done = list(watched(results, len(jobs), "models fitted", show=show))
    return done[: len(folds)], done[-1] if refit else None


def _fold(estimator: Any, training: Training, train: Rows, test: Rows, *, keep: bool) -> Fold:
    model = training.fit(estimator, train)
    return Fold(model if keep else None, test, training.read(model, test))


def stacked(folds: list[Fold]) -> tuple[Rows, ModelScores, NDArray[np.float64] | None]:
    """Scores of all folds by row, and the share each has in its row's weight.

    A row that several folds score (repeated splits) counts once, in shares; with every
    row scored at most once there are none.
    """
    rows = np.concatenate([fold.rows for fold in folds])
    by_row = np.argsort(rows, kind="stable")
    values = np.concatenate([fold.scores.values for fold in folds])[by_row]
    known = np.unique(np.concatenate([fold.scores.known for fold in folds]))
    rows = rows[by_row]
    times = np.bincount(rows)[rows]
    return rows, ModelScores(folds[0].scores.reading, values, known), None if np.all(times == 1) else 1.0 / times
