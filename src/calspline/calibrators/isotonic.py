"""IsotonicCalibrator: the best curve that never decreases."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import MIN_SPAN, Array, Counts
from calspline.calibrators.base import MapFit, OneVsRestCalibrator
from calspline.curve import CalibrationCurve, constant
from calspline.scores import BinaryScores
from calspline.transforms import Transform

MIN_GAP = 1e-250
"""Scores closer than this share of their range are one: a slope between them would overflow."""


class IsotonicCalibrator(OneVsRestCalibrator):
    r"""Calibrate scores by isotonic regression.

    The calibrated probabilities :math:`f_i` minimise

    .. math:: \sum_i w_i (y_i - f_i)^2 \quad \text{subject to} \quad f_i \le f_j \text{ wherever } s_i \le s_j ,

    as :func:`sklearn.isotonic.isotonic_regression` finds them. Between the scores seen the curve is linear, beyond
    them flat. Probabilities are kept within 1e-15 and 1 - 1e-15; where the first or the last scores are all of one
    class that is what they get, so the log-loss of new rows can be large.

    Probabilities and margins alike, as only their order counts. Three or more classes: one curve per class
    against the rest, then rows are normalised. A class that no row shows gets ``1 / (n + 2)`` before normalising.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted: the order of columns.
    curves_ : list of CalibrationCurve
        One curve for a two-class problem, else one per class.
    converged_ : bool
        Always True.

    See Also
    --------
    SplineCalibrator : With ``monotone=True``, a smooth curve that never decreases.

    References
    ----------
    B. Zadrozny and C. Elkan, *Transforming Classifier Scores into Accurate Multiclass Probability Estimates* (2002).

    Examples
    --------
    >>> from calspline import IsotonicCalibrator
    >>> cal = IsotonicCalibrator().fit([0.1, 0.2, 0.4, 0.6, 0.8, 0.9], [0, 1, 0, 0, 1, 1])
    >>> cal.calibrate([0.2, 0.5, 0.7]).round(3)
    array([0.333, 0.333, 0.667])
    """

    prefers_margins: ClassVar[bool] = True

    def _fit_map(self, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None) -> MapFit:
        counts = _apart(Counts.from_rows(scores.values.astype(np.float64, copy=False), positive, weight))
        if counts.all_equal:
            return MapFit(constant(scores.kind, counts.base_rate), constant=True)
        from sklearn.isotonic import isotonic_regression

        # Not the IsotonicRegression class: it takes scores closer than 1e-15 for one.
        f = isotonic_regression(counts.positives / counts.w, sample_weight=counts.w, y_min=0.0, y_max=1.0)
        corner = np.ones(len(f), dtype=bool)
        corner[1:-1] = (f[1:-1] != f[:-2]) | (f[1:-1] != f[2:])
        x, f = counts.x[corner], f[corner]
        coefficients = np.zeros((4, len(x) + 1))  # linear between the corners, flat beyond them
        coefficients[2, 1:-1] = np.diff(f) / np.diff(x)
        coefficients[3] = np.concatenate([f[:1], f])
        return MapFit(CalibrationCurve(Transform("identity"), x, coefficients, link="identity"))


def _apart(counts: Counts) -> Counts:
    """Counts with scores that are too close for a slope made one."""
    least = max(MIN_GAP * float(np.ptp(counts.x)), MIN_SPAN)
    first = np.flatnonzero(np.append(np.inf, np.diff(counts.x)) > least)
    return counts.merged(first, counts.x[first])
