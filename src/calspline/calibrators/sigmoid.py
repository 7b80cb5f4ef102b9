"""SigmoidCalibrator: Platt's method."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, Counts
from calspline.calibrators.base import MapFit, OneVsRestCalibrator
from calspline.curve import CalibrationCurve, constant, line
from calspline.fitting.newton import fit_logistic
from calspline.options import Choice, Domain
from calspline.scores import BinaryScores
from calspline.transforms import Transform


class SigmoidCalibrator(OneVsRestCalibrator):
    r"""Calibrate scores with a sigmoid: Platt's method.

    The calibrated probability is

    .. math:: P = \frac{1}{1 + \exp(-(a x + b))}

    where ``x`` is the log-odds of a probability (kept within those of 1e-9 and 1 - 1e-9),
    or a margin as it is. ``a`` and ``b`` maximise the likelihood of Platt's smoothed targets:
    with :math:`n_1` positives and :math:`n_0` negatives, a positive counts as
    :math:`(n_1 + 1) / (n_1 + 2)` and a negative as :math:`1 / (n_0 + 2)`, so that the fit is
    finite even where scores separate the classes.

    On log-odds, ``a = 1`` and ``b = 0`` change nothing, so scores that are calibrated already stay
    as they are; on the probability itself no sigmoid does that.

    Three or more classes: one sigmoid per class against the rest, then rows are normalised. Margins are
    then each class's own, used as they are; for a network's logits give their softmax. A class that no row
    shows gets ``1 / (n + 2)`` before normalising.

    Parameters
    ----------
    on : {"log_odds", "probability"}, default="log_odds"
        What ``x`` is for scores that are probabilities. ``"probability"`` is the textbook form, as
        in scikit-learn: the score itself.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted: the order of columns.
    a_, b_ : float, or array of shape (n_classes,)
        Slope and intercept of the log-odds in ``x``; arrays for three or more classes. The
        slope is positive where larger scores mean larger probabilities. (Platt, and
        scikit-learn, write both with the opposite sign.)
    curves_ : list of CalibrationCurve
        One curve for a two-class problem, else one per class.
    converged_ : bool

    See Also
    --------
    SplineCalibrator : A curve that may bend where the data ask for it.
    BetaCalibrator : Three parameters, which can also leave calibrated scores alone.

    References
    ----------
    J. Platt, *Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized Likelihood
    Methods* (1999).

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import SigmoidCalibrator
    >>> rng = np.random.default_rng(0)
    >>> log_odds = rng.normal(size=5000)
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-log_odds))
    >>> overconfident = 1 / (1 + np.exp(-3 * log_odds))
    >>> cal = SigmoidCalibrator().fit(overconfident, y)
    >>> cal.calibrate([0.01, 0.5, 0.99]).round(2)
    array([0.17, 0.5 , 0.83])
    >>> round(cal.a_, 1)
    0.3
    """

    _parameter_constraints: ClassVar[dict[str, Domain]] = {"on": Choice("log_odds", "probability")}
    prefers_margins: ClassVar[bool] = True

    def __init__(self, *, on: Literal["log_odds", "probability"] = "log_odds") -> None:
        self.on = on

    def _fit_map(self, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None) -> MapFit:
        transform = Transform("logit" if scores.kind == "probability" and self.on == "log_odds" else "identity")
        x = transform.from_log_odds(scores.locations()) if transform.takes_probabilities else scores.values
        counts = Counts.from_rows(x.astype(np.float64, copy=False), positive, weight)
        if counts.all_equal:
            return MapFit(constant(scores.kind, counts.base_rate), constant=True)
        n1, n0 = float(counts.positives.sum()), float(counts.negatives.sum())
        positives = counts.positives * (n1 + 1.0) / (n1 + 2.0) + counts.negatives / (n0 + 2.0)
        negatives = counts.positives / (n1 + 2.0) + counts.negatives * (n0 + 1.0) / (n0 + 2.0)
        origin, unit = _centre_and_spread(counts.x, counts.w)
        X = np.column_stack([np.ones(len(counts.x)), (counts.x - origin) / unit])
        start = np.array([np.log((n1 + 1.0) / (n0 + 1.0)), 0.0])
        fit = fit_logistic(X, positives, negatives, np.zeros(2), start)
        curve = line(transform, float(fit.u[1]) / unit, float(fit.u[0]), origin=origin)
        return MapFit(curve, converged=fit.converged)

    def _set_maps(self, maps: list[CalibrationCurve]) -> None:
        super()._set_maps(maps)
        a = np.array([curve.coefficients[2, 0] for curve in maps])
        b = np.array([curve.coefficients[3, 0] for curve in maps]) - a * [curve.origin for curve in maps]
        self.a_: Any = a if len(maps) > 1 else float(a[0])
        self.b_: Any = b if len(maps) > 1 else float(b[0])


def _centre_and_spread(x: Array, w: Array) -> tuple[float, float]:
    """Weighted mean and standard deviation of numbers of any size."""
    size = float(np.abs(x).max())
    share, scaled = w / w.sum(), x / size
    mean = float(share @ scaled)
    spread = float(np.sqrt(share @ (scaled - mean) ** 2))
    return mean * size, max(spread, 1e-8 * float(np.ptp(scaled))) * size  # tiny weights must not make it vanish
