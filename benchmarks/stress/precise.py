"""The penalised likelihood maximised in sixty digits, from its definition alone.

Nothing of the library's numerics is used: the basis is the truncated-power one, the
penalty the integral of ``g''^2`` between its knots, and Newton starts at zero. Only the
knots and the smoothing are those of the fit to be judged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from calspline import SplineCalibrator

Array = NDArray[np.float64]

DIGITS = 60
MAX_STEPS = 300
SETTLED = mpf(10) ** -25
SMOOTHING = 0.01
HEDGE = mpf(1) / 4
SURPRISE = mpf(1) / 16
LINE_PRIOR = mpf(10) ** -8
"""The documented constants of the targets."""
MAX_APART = 1e-6
"""In probability, that a fit may be from the exact maximum."""


def farthest(cal: SplineCalibrator) -> float:
    """The largest difference in probability between a curve of given smoothing and the exact maximum, over its scores.

    (By default fits are averaged, and no maximum.)
    """
    curve, histogram = cal.curves_[0], cal.histogram_
    x = histogram.locations
    if histogram.kind == "probability":
        x = curve.transform.from_log_odds(x)
    x = np.clip(
        x, *(curve.origin + curve.unit * curve.breaks[[0, -1]])
    )  # scores beyond the end knots count as those
    with mp.workdps(DIGITS):
        n1, n0 = (
            mpf(float(histogram.positives.sum())),
            mpf(float(histogram.negatives.sum())),
        )
        intercept, slope = (
            (mp.log(n1 / n0), mpf(0))
            if curve.transform.name == "identity"
            else (mpf(0), mpf(1))
        )
        places = [mpf(v) for v in x.tolist()]
        w1, w0 = (
            [mpf(v) for v in part.tolist()]
            for part in (histogram.positives, histogram.negatives)
        )
        w = [a + b for a, b in zip(w1, w0, strict=True)]
        trusted = places
        if curve.transform.name == "identity":
            s = [
                (n1 + 1) / (n1 + 2) * a + b / (n0 + 2)
                for a, b in zip(w1, w0, strict=True)
            ]
            trusted = _line(places, w, s)
        s = []
        for a, b, eta in zip(w1, w0, trusted, strict=True):
            low = _hedge(eta) / (n0 + 2)
            high = 1 - _hedge(-eta) / (n1 + 2)
            s.append(high * a + low * b)
        z = [(v - mpf(curve.origin)) / mpf(curve.unit) for v in places]
        rows, Q = _penalised(
            z,
            w,
            [mpf(v) for v in curve.breaks.tolist()],
            mpf(cal.smoothing_),
            slope * curve.unit,
        )
        offset = [intercept + slope * v for v in places]
        eta = _maximum(rows, Q, offset, w, s)
        limit = mp.log(mpf("1e-15"))
        exact = [1 / (1 + mp.exp(-min(max(e, limit), -limit))) for e in eta]
    ours = 1.0 / (1.0 + np.exp(-np.clip(_log_odds(cal, x), -34.6, 34.6)))
    return float(np.abs(ours - np.array([float(p) for p in exact])).max())


def _hedge(eta: Any) -> Any:
    """Share of Platt's hedge that is left to a label, given the log-odds that it is wrong."""
    p = 1 / (1 + mp.exp(-eta))
    return HEDGE + (1 - HEDGE) * min(p / SURPRISE, 1)


def _line(places: list[Any], w: list[Any], s: list[Any]) -> list[Any]:
    """Log-odds of the line that is fitted to targets ``s``."""
    middle = (places[0] + places[-1]) / 2
    unit = (places[-1] - places[0]) / 2
    rows = [[mpf(1), (x - middle) / unit] for x in places]
    return _maximum(
        rows, mp.diag([LINE_PRIOR, LINE_PRIOR]), [mpf(0)] * len(places), w, s
    )


def _log_odds(cal: SplineCalibrator, x: Array) -> Array:
    """The fitted curve, from its stored coefficients."""
    curve = cal.curves_[0]
    z = (x - curve.origin) / curve.unit
    piece = np.searchsorted(curve.breaks, z, side="right")
    t = z - np.concatenate([curve.breaks[:1], curve.breaks])[piece]
    a, b, c, d = curve.coefficients[:, piece]
    return np.asarray(((a * t + b) * t + c) * t + d)


def _penalised(
    z: list[Any], w: list[Any], knots: list[Any], smoothing: Any, slope: Any
) -> tuple[list[list[Any]], Any]:
    """Rows of the truncated-power basis, and the matrix of ``0.1 c (a^2 + b^2) + smoothing / 2`` times the curvature.

    ``a + b (z - mean) / sd`` is the least-squares line of the deviation, and ``c`` is 1
    or, where the line that is deviated from spreads over more than 4 log-odds, the
    square of 4 over its spread.
    """
    K, last = len(knots), knots[-1]

    def d(v: Any, k: int, power: int) -> Any:
        return (max(v - knots[k], 0) ** power - max(v - last, 0) ** power) / (
            last - knots[k]
        )

    rows = [
        [mpf(1), v, *(d(v, k, 3) - d(v, K - 2, 3) for k in range(K - 2))] for v in z
    ]
    bends = [
        [mpf(0), mpf(0), *(6 * (d(v, k, 1) - d(v, K - 2, 1)) for k in range(K - 2))]
        for v in knots
    ]
    total = mp.fsum(w)
    mean = mp.fsum(a * b for a, b in zip(w, z, strict=True)) / total
    sd = mp.sqrt(
        mp.fsum(a * (b - mean) ** 2 for a, b in zip(w, z, strict=True)) / total
    )
    weak = mpf("0.2") * (4 / max(abs(slope) * sd, mpf(4))) ** 2
    Q = mp.zeros(K)
    for share in (w, [a * (b - mean) / sd for a, b in zip(w, z, strict=True)]):
        functional = [
            mp.fsum(a * row[j] for a, row in zip(share, rows, strict=True)) / total
            for j in range(K)
        ]
        for i in range(K):
            for j in range(K):
                Q[i, j] += weak * functional[i] * functional[j]
    for left, right, start, end in zip(
        bends[:-1], bends[1:], knots[:-1], knots[1:], strict=True
    ):
        for i in range(2, K):
            for j in range(2, K):
                both = (
                    2 * left[i] * left[j]
                    + 2 * right[i] * right[j]
                    + left[i] * right[j]
                    + right[i] * left[j]
                )
                Q[i, j] += smoothing * (end - start) / 6 * both
    return rows, Q


def _maximum(
    rows: list[list[Any]], Q: Any, offset: list[Any], w: list[Any], s: list[Any]
) -> list[Any]:
    """``eta`` at the maximum, by damped Newton from zero."""
    n, K = len(rows), len(rows[0])
    Z, beta = mp.matrix(rows), mp.zeros(K, 1)

    def value(eta: list[Any], beta: Any) -> Any:
        loss = mp.fsum(
            w[b] * (max(eta[b], 0) + mp.log1p(mp.exp(-abs(eta[b])))) - s[b] * eta[b]
            for b in range(n)
        )
        return loss + (beta.T * Q * beta)[0] / 2

    eta = list(offset)
    current = value(eta, beta)
    for _ in range(MAX_STEPS):
        mean = [1 / (1 + mp.exp(-e)) for e in eta]
        gradient = Z.T * mp.matrix([w[b] * mean[b] - s[b] for b in range(n)]) + Q * beta
        H = Q.copy()
        for b in range(n):
            v, row = w[b] * mean[b] * (1 - mean[b]), rows[b]
            for i in range(K):
                scaled = v * row[i]
                for j in range(i + 1):
                    H[i, j] += scaled * row[j]
        for i in range(K):
            for j in range(i):
                H[j, i] = H[i, j]
        step = mp.lu_solve(H, -gradient)
        moves, scale = Z * step, mpf(1)
        decrease = -(gradient.T * step)[0]
        while True:
            trial_eta = [eta[b] + scale * moves[b] for b in range(n)]
            trial = value(trial_eta, beta + scale * step)
            if (
                trial
                <= current - scale * decrease / 10000 + abs(current) * mpf(10) ** -50
            ):
                break
            scale /= 2
        eta, beta, current = trial_eta, beta + scale * step, trial
        if max(abs(m) for m in moves) * scale < SETTLED:
            return eta
    raise ArithmeticError("the exact maximum was not reached")
