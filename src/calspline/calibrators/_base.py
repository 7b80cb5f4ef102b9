"""What every calibrator shares: from scores to probabilities, labels and shapes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

Array = NDArray[np.float64]


class BaseCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator whose features are a model's scores."""

    classes_: NDArray[Any]
    _prefers_margins: ClassVar[bool] = False
    """Whether a model's ``decision_function`` is read before its ``predict_proba``."""

    @abstractmethod
    def fit(self, scores: Any, y: Any, sample_weight: Any = None) -> BaseCalibrator:
        """Learn the calibration from scores and what happened."""

    @abstractmethod
    def _probability(self, scores: Any) -> tuple[Array, tuple[int, ...]]:
        """Calibrated probabilities, and the shape of the scores.

        Two classes: those of the second, flat. More: a column for each.
        """

    def predict_proba(self, scores: Any) -> Array:
        """Calibrated probabilities of all classes.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)

        Returns
        -------
        array of shape (n, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        p, _ = self._probability(scores)
        return p if p.ndim == 2 else _both(p)

    def calibrate(self, scores: Any) -> Array:
        """Calibrated probabilities in the shape that came in.

        One column in gives the probability of ``classes_[1]``; more give all classes.
        """
        check_is_fitted(self)
        p, shape = self._probability(scores)
        if p.ndim == 2:
            return p
        return _both(p) if len(shape) == 2 and shape[1] == 2 else p.reshape(shape)

    def predict(self, scores: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        check_is_fitted(self)
        p, _ = self._probability(scores)
        return np.asarray(self.classes_[p.argmax(axis=1) if p.ndim == 2 else (p > 0.5).astype(np.intp)])


def _both(p: Array) -> Array:
    """Probabilities of the first and the second class."""
    out = np.empty((len(p), 2))
    out[:, 1] = p
    np.subtract(1.0, p, out=out[:, 0])
    return out
