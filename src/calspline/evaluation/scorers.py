"""Scorers for scikit-learn: the measures of ``evaluate`` in a grid search."""

from __future__ import annotations

from typing import Any

from sklearn.metrics import make_scorer

from calspline.evaluation.evaluate import evaluate
from calspline.options import check_one_of

BETTER = {
    "log_loss": False, "brier": False, "accuracy": True, "auc": True, "calibration_log_loss": False,
    "refinement_log_loss": False, "calibration_brier": False, "refinement_brier": False, "ece": False,
    "ece_debiased": False, "smooth_ece": False, "ici": False, "emax": False,
}  # fmt: skip
"""Whether more of it is better."""


def scorer(measure: str) -> Any:
    """A measure of :func:`~calspline.evaluate` as a scorer, for ``scoring=`` of scikit-learn.

    Parameters
    ----------
    measure : str
        ``"log_loss"``, ``"brier"``, ``"accuracy"``, ``"auc"``, ``"calibration_log_loss"``, ``"refinement_log_loss"``,
        ``"calibration_brier"``, ``"refinement_brier"``, ``"ece"``, ``"ece_debiased"``, ``"smooth_ece"``, ``"ici"`` or
        ``"emax"``.

    Returns
    -------
    scorer
        It calls ``predict_proba``. Of a measure of which less is better it gives the negative, as scikit-learn does.

    Notes
    -----
    Calibration alone is best for a model that always says the base rate: to choose a model, take ``"log_loss"`` or
    ``"brier"``, or several measures and ``refit="log_loss"``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_validate
    >>> from calspline.evaluation.scorers import scorer
    >>> X, y = make_classification(random_state=0)
    >>> names = ("log_loss", "calibration_log_loss")
    >>> found = cross_validate(LogisticRegression(), X, y, scoring={name: scorer(name) for name in names})
    >>> bool((found["test_log_loss"] <= found["test_calibration_log_loss"]).all())
    True
    """
    check_one_of(measure, "measure", tuple(BETTER))
    return make_scorer(_measured, response_method="predict_proba", greater_is_better=BETTER[measure], measure=measure)


def _measured(y: Any, probs: Any, *, measure: str, sample_weight: Any = None, labels: Any = None) -> float:
    found: float = getattr(evaluate(y, probs, sample_weight=sample_weight, labels=labels), measure)
    return found
