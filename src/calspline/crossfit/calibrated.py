"""A model and the calibrator of its scores, fitted and composed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calspline.arrays import Array
from calspline.calibrators.base import BaseCalibrator
from calspline.crossfit.folds import Fold, stacked
from calspline.crossfit.responses import ModelScores, Reading, read_scores


@dataclass(frozen=True)
class CalibratedClassifier:
    """A fitted model and the calibrator of its scores.

    ``known`` are the positions in ``classes`` of the classes that the calibrator tells apart; a model
    that has seen only one has no calibrator.
    """

    estimator: Any
    calibrators: list[Any]
    classes: NDArray[Any]
    known: NDArray[np.intp]
    order: tuple[Reading, ...]

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities, a column for each of ``classes``."""
        scores = read_scores(self.estimator, X, self.order, self.classes)
        out = np.zeros((len(scores), len(self.classes)))
        if not self.calibrators:
            out[:, self.known] = 1.0
            return out
        p = np.asarray(self.calibrators[0].predict_proba(scores.among(self.known).values), dtype=np.float64)
        if p.ndim == 1 or p.shape[1] == 1:
            p = np.column_stack([1.0 - p.reshape(-1), p.reshape(-1)])
        if p.shape[1] == len(self.classes):
            return p
        out[:, self.known] = p
        return out


@dataclass(frozen=True)
class Rule:
    """How scores become a calibrator: the one to copy, and every row's class and weight."""

    calibrator: Any
    classes: NDArray[Any]
    codes: NDArray[np.intp]
    weight: Array | None
    order: tuple[Reading, ...]

    def calibrated(self, model: Any, folds: list[Fold]) -> CalibratedClassifier:
        """A model with a calibrator fitted on the scores of all folds."""
        rows, scores, shares = stacked(folds)
        return self._pair(model, rows, scores, shares)

    def each_calibrated(self, folds: list[Fold]) -> list[CalibratedClassifier]:
        """Every fold's model, with a calibrator fitted on its own scores, or on all if those show one class only."""
        return [self._own_or_all(fold, folds) for fold in folds]

    def _own_or_all(self, fold: Fold, folds: list[Fold]) -> CalibratedClassifier:
        known = fold.scores.known
        if len(known) == 1:
            return CalibratedClassifier(fold.model, [], self.classes, known, self.order)
        if len(np.intersect1d(self.codes[fold.rows], known)) > 1:
            return self._pair(fold.model, fold.rows, fold.scores, None)
        rows, scores, shares = stacked(folds)
        return self._pair(fold.model, rows, replace(scores, known=known), shares)

    def _pair(
        self, model: Any, rows: NDArray[np.intp], scores: ModelScores, shares: Array | None
    ) -> CalibratedClassifier:
        known, codes = scores.known, self.codes[rows]
        weight = shares if self.weight is None else self.weight[rows] * (1.0 if shares is None else shares)
        if len(known) < len(self.classes):
            able = np.isin(codes, known)
            scores, codes = scores.of(able), np.searchsorted(known, codes[able])
            weight = None if weight is None else weight[able]
        calibrator = clone(self.calibrator, safe=False)
        _fit(calibrator, scores.among(known), codes, weight)
        if isinstance(calibrator, BaseCalibrator):
            calibrator.classes_ = self.classes[known]
        return CalibratedClassifier(model, [calibrator], self.classes, known, self.order)


def _fit(calibrator: Any, scores: ModelScores, codes: NDArray[np.intp], weight: Array | None) -> None:
    """Fit a calibrator, ours or a stranger's; a stranger that takes no weights gets none, and a warning."""
    if isinstance(calibrator, BaseCalibrator):
        fit = calibrator._fit_margins if scores.margins else calibrator.fit
        fit(scores.values, codes, weight)
    elif weight is None:
        calibrator.fit(scores.values, codes)
    elif "sample_weight" in signature(calibrator.fit).parameters:
        calibrator.fit(scores.values, codes, sample_weight=weight)
    else:
        warnings.warn(
            f"{type(calibrator).__name__}.fit does not take sample_weight: it is fitted without weights", stacklevel=6
        )
        calibrator.fit(scores.values, codes)
