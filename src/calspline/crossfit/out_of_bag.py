"""Out-of-bag scores: what the trees that did not draw a row say of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from calspline.crossfit.folds import Fold, Training
from calspline.crossfit.responses import ModelScores


def fit_out_of_bag(estimator: Any, training: Training) -> Fold:
    """Fit once on all rows, and read the votes on each row of the trees that did not draw it.

    A row that every tree drew has no such vote and is left out.
    """
    prefix = _path_to_bagging(estimator)
    model = clone(estimator)
    _check_bagging(model, prefix)
    model.set_params(**{f"{prefix}oob_score": True})
    with warnings.catch_warnings():
        # Rows without a vote are dealt with below.
        warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores", category=UserWarning)
        warnings.filterwarnings("ignore", message="invalid value encountered in", category=RuntimeWarning)
        fitted = training.fit(model)
    last = fitted[-1] if isinstance(fitted, Pipeline) else fitted
    votes: NDArray[np.float64] = np.asarray(last.oob_decision_function_, dtype=np.float64)
    voted = np.isfinite(votes).all(axis=1) & (votes.sum(axis=1) > 0.0)
    if not voted.any():
        raise ValueError('cv="oob" found no row that some tree did not draw; use more trees, or folds')
    known = np.arange(len(training.classes))
    return Fold(fitted, training.rows[voted], ModelScores("predict_proba", votes[voted], known))


def _path_to_bagging(estimator: Any) -> str:
    """The prefix of the parameters of the bagging estimator: the estimator, or a pipeline's last step."""
    return f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""


def _check_bagging(model: Any, prefix: str) -> None:
    params = model.get_params()
    if f"{prefix}oob_score" not in params:
        raise ValueError(
            'cv="oob" needs a bagging estimator, one with the parameter oob_score, such as RandomForestClassifier or '
            f"BaggingClassifier; got {type(model).__name__}"
        )
    if params.get(f"{prefix}bootstrap") is False:
        raise ValueError('cv="oob" needs trees that leave rows out; set bootstrap=True on the estimator')
