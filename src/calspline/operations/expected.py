"""Expected measures of calibrated probabilities, before labels are available.

If the calibrated probabilities ``p`` are correct, outcomes are independent coin flips,
and the expected value of every measure follows from the probabilities alone. To first
order, each measure is a sum ``sum_i b_i y_i`` over outcomes, so its variance has two
parts:

    sum_i b_i^2 p_i (1 - p_i)                        the outcomes,
    sum_k (sum_i b_i p_i (1 - p_i) e_ki)^2           the errors of the calibrator,

with ``e_ki`` its independent errors of the log-odds (see :meth:`CalibrationCurve.noise
<calspline.CalibrationCurve.noise>`). These are errors of a smooth curve. Accuracy and
cost, however, are discontinuous at a threshold, so they depend on the curve at that
point, where a bend may have been smoothed away. The second part is therefore at least
that of an unrestricted curve: the variance of the outcomes of as many rows as determine
the event rate as precisely as the calibrator does. For three or more classes, the
errors are those of the logarithms before normalisation. The limits use the normal
approximation. They are valid if the relation between scores and events has not changed
since the fit, which cannot be detected without labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import entr, ndtri

from calspline._arrays import Array, Counts
from calspline._formatting import Row, format_number, percent
from calspline._input.options import check_number
from calspline._results import Block, Result, Table
from calspline.calibrators.checks import classes_of_calibrator
from calspline.evaluation import losses
from calspline.evaluation.decisions import Costs, check_costs
from calspline.fits.shift import Unlabelled, check_unlabelled

Limits = tuple[float, float]

HIGHEST = {"log_loss": np.inf, "brier": 2.0, "auc": 1.0, "accuracy": 1.0, "rate": 1.0}
NAMES = {
    "log_loss": "log-loss",
    "brier": "Brier score",
    "auc": "AUC",
    "accuracy": "accuracy",
    "rate": "rate",
}
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Expected(Result):
    """Expected measures with their limits; see :func:`expected`.

    Attributes
    ----------
    log_loss, brier, auc, accuracy : float
        Expected values of the attributes of :class:`Evaluation`.
    rate : float
        Expected event rate; for three or more classes, the expected frequency with
        which the most probable class is correct.
    rates : mapping of label to float
        Expected share of each class.
    cost : float
        Cost per row of acting on the probabilities; NaN without costs.
    limits : mapping of str to (float, float)
        Limits by name.
    n_rows : float
        Number of rows to whose outcomes the limits refer.
    level : float
        Confidence level of the limits.
    """

    log_loss: float
    brier: float
    auc: float
    accuracy: float
    rate: float
    rates: Mapping[Any, float]
    cost: float
    limits: Mapping[str, Limits]
    n_rows: float
    level: float

    def to_dict(self) -> dict[str, float]:
        """Return all numbers and their limits as a flat dict."""
        out = {"n_rows": self.n_rows, "level": self.level}
        for name, (low, high) in self.limits.items():
            out |= {
                name: float(getattr(self, name)),
                f"{name}_lower": low,
                f"{name}_upper": high,
            }
        return out

    def _blocks(self) -> list[Block]:
        rows: list[Row] = [
            (
                NAMES.get(name, "cost per row"),
                format_number(getattr(self, name)),
                f"{format_number(low)} to {format_number(high)}",
            )
            for name, (low, high) in self.limits.items()
        ]
        title = f"Expected of {self.n_rows:,.0f} rows"
        return [Table(rows, (title, "value", f"{percent(self.level)} limits"))]

    def _columns(self) -> dict[str, Any]:
        return {
            "name": list(self.limits),
            "value": [getattr(self, name) for name in self.limits],
            "lower": [low for low, _ in self.limits.values()],
            "upper": [high for _, high in self.limits.values()],
        }

    def __repr__(self) -> str:
        return (
            f"Expected({self.n_rows:,.0f} rows: "
            f"log_loss={self.log_loss:.4g}, rate={self.rate:.4g})"
        )


def expected(
    calibrator: Any,
    scores: Any,
    *,
    costs: Mapping[str, float] | None = None,
    n_rows: float | None = None,
    level: float = 0.95,
) -> Expected:
    """Compute expected measures before labels are available.

    The measures are log-loss, Brier score, AUC, accuracy, event rate and cost, with
    confidence limits.

    Parameters
    ----------
    calibrator : fitted calibrator
    scores : array-like or ScoreHistogram
        Scores as for ``calibrate``, or a histogram of scores, whose labels are ignored.
    costs : mapping, optional
        Costs as for :func:`decide`. Rows are acted on if their probability reaches the
        threshold that follows from the costs. Two classes only.
    n_rows : float, optional
        Number of rows to whose outcomes the limits refer; by default the given rows.
        For ``np.inf``, the limits are those of the mean over infinitely many such rows,
        and reflect the uncertainty of the calibrator alone.
    level : float in (0, 1), default=0.95
        Confidence level of the limits.

    Returns
    -------
    result : Expected
        Numbers as attributes; ``print`` shows a table.

    See Also
    --------
    evaluate : The same measures once labels are available.
    drift : Detect changes of the scores.

    Notes
    -----
    The limits include the uncertainty of the calibrator if it is known: for a
    :class:`SplineCalibrator` with two classes, or with ``multiclass="structured"``. For
    other calibrators, they are those of the outcomes alone. Like all bands of smooth
    curves, they are valid on average over possible true curves; coverage is lower where
    the true curve bends sharply at the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import SplineCalibrator, expected
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=(2, 2000))
    >>> cal = SplineCalibrator().fit(score[0], rng.random(2000) < score[0] ** 2)
    >>> print(expected(cal, score[1], costs={"false_positive": 1, "false_negative": 5}))
    Expected of 2,000 rows   value        95% limits
    ------------------------------------------------
    log-loss                0.4209  0.3894 to 0.4524
    Brier score             0.1368  0.1253 to 0.1483
    AUC                     0.8630  0.8409 to 0.8850
    accuracy                0.8012  0.7781 to 0.8242
    rate                    0.3239  0.3009 to 0.3470
    cost per row            0.4272  0.3728 to 0.4815
    """
    classes = classes_of_calibrator(calibrator)
    level = check_number(level, "level", above=0.0, below=1.0)
    known = None if costs is None else check_costs(costs)
    if known is not None and len(classes) > 2:
        raise ValueError("costs are for two classes; the calibrator has more")
    rows = check_unlabelled(calibrator.model_, scores, "scores")
    n = rows.total
    if n_rows is not None:
        n = np.inf if n_rows == np.inf else check_number(n_rows, "n_rows", above=0.0)
    # # Probabilities of all classes, also for two.
    p = rows.p if rows.p.ndim == 2 else np.column_stack([1.0 - rows.p, rows.p])
    share = rows.weight / rows.total
    measures = _measures(p, share, known)
    z = float(ndtri(0.5 + 0.5 * level))
    limits = {}
    for name, (value, parts) in measures.items():
        away = parts - (p * parts).sum(axis=1, keepdims=True)
        flips = float(share @ (p * away**2).sum(axis=1))
        reach = z * float(
            np.sqrt(
                flips / n + _own_variance(calibrator, scores, rows, p * away, flips)
            )
        )
        low, high = value - reach, value + reach
        limits[name] = (
            (low, high) if name == "cost" else (max(low, 0.0), min(high, HIGHEST[name]))
        )
    return Expected(
        **({"cost": np.nan} | {name: value for name, (value, _) in measures.items()}),
        rates=dict(zip(classes.tolist(), (share @ p).tolist(), strict=True)),
        limits=limits,
        n_rows=n,
        level=level,
    )


def _measures(
    p: Array, share: Array, costs: Costs | None
) -> dict[str, tuple[float, Array]]:
    """Expected values, and the influence of each row's outcome on them, by class."""
    m = p.shape[1]
    top = np.zeros_like(p)
    top[np.arange(len(p)), p.argmax(axis=1)] = 1.0
    area, parts = 0.0, np.zeros_like(p)
    judged = range(m) if m > 2 else [1]
    for j in judged:
        f = Counts.from_sums(p[:, j], share * p[:, j], share * (1.0 - p[:, j]))
        area += losses.auc(f) / len(judged)
        parts[:, j] = _auc_parts(f)[np.searchsorted(f.x, p[:, j])] / len(judged)
    summed = 2.0 if m == 2 else 1.0  # the Brier score of two classes is that of one
    found = {
        "log_loss": (float(share @ entr(p).sum(axis=1)), -np.log(np.maximum(p, TINY))),
        "brier": (
            float(share @ (p * (1.0 - p)).sum(axis=1)) / summed,
            -2.0 * p / summed,
        ),
        "auc": (area, parts),
        "accuracy": (float(share @ p.max(axis=1)), top),
    }
    happens = np.tile([0.0, 1.0], (len(p), 1))
    found["rate"] = (float(share @ p[:, 1]), happens) if m == 2 else found["accuracy"]
    if costs is not None:
        act = (p[:, 1] >= costs.threshold)[:, None]
        parts = np.where(act, costs.acting(happens), costs.waiting(happens))
        found["cost"] = (float(share @ (p * parts).sum(axis=1)), parts)
    return found


def _auc_parts(f: Counts) -> Array:
    """Change of the AUC if an outcome changes to an event, by probability."""
    w1, w0, area = float(f.positives.sum()), float(f.negatives.sum()), losses.auc(f)
    below = (np.cumsum(f.negatives) - 0.5 * f.negatives) / w0
    above = 1.0 - (np.cumsum(f.positives) - 0.5 * f.positives) / w1
    return np.asarray((below - area) / w1 - (above - area) / w0)


def _own_variance(
    calibrator: Any, scores: Any, rows: Unlabelled, slopes: Array, flips: float
) -> float:
    """Variance of a measure due to the errors of the calibrator."""
    share = rows.weight / rows.total
    if rows.p.ndim == 2:
        own: float = calibrator.model_.map.sum_variance(
            calibrator.model_.check(scores), share[:, None] * slopes
        )
        return own
    spread = rows.p * (1.0 - rows.p)
    smooth, rate = (
        float(((rows.noise @ (share * one)) ** 2).sum())
        for one in (slopes[:, 1], spread)
    )
    return max(smooth, flips * rate / max(float(share @ spread), TINY))
