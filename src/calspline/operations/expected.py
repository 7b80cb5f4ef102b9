"""Expected measures of calibrated probabilities, before labels are available.

If the calibrated probabilities ``p`` are correct, outcomes are independent coin flips,
and the expected value of every measure follows from the probabilities alone. To first
order, each measure is a sum ``sum_i b_i y_i`` over outcomes, so its variance has two
parts:

    sum_i b_i^2 p_i (1 - p_i)                        the outcomes,
    sum_k (sum_i b_i d_i e_ki)^2                     the errors of the calibrator,

with ``e_ki`` its independent errors of the log-odds (see :meth:`CalibrationCurve.noise
<calspline.CalibrationCurve.noise>`), and ``d_i`` how fast ``p_i`` changes with them.
Where log-odds are large and uncertain, as in heavy tails, ``p_i`` is nearly flat on one
side and steep on the other. Thus ``d_i`` is not the derivative but the mean slope over
one standard deviation of the log-odds, and the limits are not symmetric. For three or
more classes, the errors are those of the logarithms before normalization, and ``d_i``
is the derivative.

These are errors of a smooth curve that is shrunk toward the scores. They omit the bias
of shrinkage, which may be as large as the errors of an unrestricted curve. Accuracy and
cost, moreover, are discontinuous at a threshold, so they depend on the curve at that
point, where a bend may have been smoothed away. The second part is therefore at least
the variance of the outcomes of the rows of the fit.

The limits use the normal approximation. They are valid if the relation between scores
and events has not changed since the fit, which cannot be detected without labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import entr, expit, logit, ndtri

from calspline._arrays import Array, Counts
from calspline._formatting import Row, format_number, percent
from calspline._input.options import check_number
from calspline._results import Block, Result, Table
from calspline.calibrators.checks import classes_of_calibrator
from calspline.evaluation import losses
from calspline.evaluation.decisions import Costs, check_costs
from calspline.fits.shift import Unlabelled, check_unlabelled

Limits = tuple[float, float]

NAMES = {
    "log_loss": "log-loss",
    "brier": "Brier score",
    "auc": "AUC",
    "accuracy": "accuracy",
    "rate": "rate",
}


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


HIGHEST = {"log_loss": np.inf, "brier": 2.0, "auc": 1.0, "accuracy": 1.0, "rate": 1.0}


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
    log-loss                0.4209  0.3904 to 0.4565
    Brier score             0.1368  0.1254 to 0.1491
    AUC                     0.8630  0.8386 to 0.8845
    accuracy                0.8012  0.7782 to 0.8241
    rate                    0.3239  0.3010 to 0.3473
    cost per row            0.4272  0.3757 to 0.4865
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
        own = _own_variances(calibrator, scores, rows, parts, p * away)
        if any(own):
            of_fit = flips / calibrator.model_.fit.n_effective
            own = tuple(max(each, of_fit) for each in own)
        below, above = (z * float(np.sqrt(flips / n + each)) for each in own)
        low = value - below
        high = value + above
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


TINY = 1e-300


def _measures(
    p: Array, share: Array, costs: Costs | None
) -> dict[str, tuple[float, Array]]:
    """Expected values, and the influence of each row's outcome on them, by class."""
    m = p.shape[1]
    top = np.zeros_like(p)
    top[np.arange(len(p)), p.argmax(axis=1)] = 1.0
    area = 0.0
    parts = np.zeros_like(p)
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
    w1 = float(f.positives.sum())
    w0 = float(f.negatives.sum())
    area = losses.auc(f)
    below = (np.cumsum(f.negatives) - 0.5 * f.negatives) / w0
    above = 1.0 - (np.cumsum(f.positives) - 0.5 * f.positives) / w1
    return np.asarray((below - area) / w1 - (above - area) / w0)


def _own_variances(
    calibrator: Any, scores: Any, rows: Unlabelled, parts: Array, slopes: Array
) -> tuple[float, ...]:
    """Variances of a measure due to the errors of the calibrator, below and above.

    ``parts`` is what outcomes add to it, and ``slopes`` has its derivatives.
    """
    share = rows.weight / rows.total
    if rows.p.ndim == 2:
        own: float = calibrator.model_.map.sum_variance(
            calibrator.model_.check(scores), share[:, None] * slopes
        )
        return own, own
    if not len(rows.noise):
        return 0.0, 0.0
    rise, fall = _mean_slopes(rows)
    of_event = share * (parts[:, 1] - parts[:, 0])
    up = np.maximum(rows.noise, 0.0)
    down = np.minimum(rows.noise, 0.0)
    forth = up @ (of_event * rise) + down @ (of_event * fall)
    back = -(up @ (of_event * fall) + down @ (of_event * rise))
    above = np.maximum(np.maximum(forth, back), 0.0)
    below = np.minimum(np.minimum(forth, back), 0.0)
    return float(below @ below), float(above @ above)


LEAST_REACH = 1e-3
"""Log-odds over which a slope is taken, at least."""


def _mean_slopes(rows: Unlabelled) -> tuple[Array, Array]:
    """Mean slopes of probabilities one standard deviation of log-odds up and down."""
    log_odds = logit(rows.p)
    reach = np.maximum(np.sqrt((rows.noise**2).sum(axis=0)), LEAST_REACH)
    rise = (expit(log_odds + reach) - rows.p) / reach
    fall = (rows.p - expit(log_odds - reach)) / reach
    return rise, fall
