"""How far out the scores of a fit count.

An exact 0 or 1 is as a rule a vote of a few trees or neighbors, or a rounded number,
and not a log-odds of 20: it belongs about one step beyond the other scores. One margin
of a million among thousands of order one would have the whole curve to itself. So a fit
takes scores beyond two limits for the limits, and its curve is flat, or nearly so, from
there on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.transforms import LOGIT_CLIP, ZERO, exactly_one, expit

ATOM = np.array([0.5, 0.25])
"""Where an exact 1 may be put: its distance to 1 as a share of the nearest score's."""
ROUNDING = 1e-9
"""Relative error of sums of weights."""
TAIL, REACH = 0.05, 3.0
"""Margins count up to ``REACH`` times the distance of two quantiles from either."""
EVERYWHERE = (-np.inf, np.inf)


def score_limits(
    transform: str, histogram: ScoreHistogram, design_effect: float = 1.0
) -> tuple[float, float]:
    """Lowest and highest location that count, for a transform of this name."""
    if histogram.kind == "margin":
        return margin_limits(histogram)
    if transform not in ("logit", "asinh_logit"):
        return EVERYWHERE
    low, high = atom_limits(histogram, design_effect)
    if transform == "logit":
        return max(low, -LOGIT_CLIP), min(high, LOGIT_CLIP)
    return low, high


def atom_limits(
    histogram: ScoreHistogram, design_effect: float = 1.0
) -> tuple[float, float]:
    """Log-odds at which exact 0 and 1 count; infinite where there are none.

    All other scores count between these limits. An exact 1 is put at a half to a
    quarter of the distance to 1 of the largest other score that, with the scores beyond
    it, is worth a row (or ``OUTERMOST`` of all, if that is less). Within that range it
    is as certain as its ``k`` rows would make it without an exception, ``(k + 1) / (k +
    2)`` by the rule of succession. Where rows count for less than one, the fit can do
    less about rows that do not suit this place: so it is further out by as much, if the
    rows that were right and wrong allow. All rows are effective rows.
    """
    u = histogram.locations
    w = (histogram.positives + histogram.negatives) / design_effect
    zero = u <= ZERO
    one = exactly_one(u)
    if not zero.any() and not one.any():
        return EVERYWHERE
    inner = ~zero & ~one

    def atom(
        where: NDArray[np.bool_], right: Array, wrong: Array, nearest: float
    ) -> float:
        if not where.any():
            return np.inf
        n1 = float(right[where].sum()) / design_effect
        n0 = float(wrong[where].sum()) / design_effect
        allowed = float(np.log(n1 + n0 + 1.0))
        if np.isnan(nearest):
            return allowed
        rest = ATOM * expit(-nearest)
        near, far = np.log1p(-rest) - np.log(rest)
        farther = np.log1p(-rest[1] / design_effect) - np.log(rest[1] / design_effect)
        sure = np.log((n1 + 1.0) / (n0 + 1.0))
        return float(max(np.clip(allowed, near, far), min(sure, farther)))

    lowest = _outermost(u[inner], w[inner])
    highest = _outermost(u[inner][::-1], w[inner][::-1])
    low = atom(zero, histogram.negatives, histogram.positives, -lowest)
    return -low, atom(one, histogram.positives, histogram.negatives, highest)


OUTERMOST = 0.002
"""Share of scores that may lie beyond the one that an exact 0 or 1 is next to."""


def _outermost(u: Array, w: Array) -> float:
    """The first of the places at which the weights add up to one row; NaN if none."""
    if not u.size:
        return np.nan
    share = np.cumsum(w)
    least = min(1.0, OUTERMOST * float(share[-1]))
    return float(u[np.argmax(share >= least * (1.0 - ROUNDING))])


def margin_limits(histogram: ScoreHistogram) -> tuple[float, float]:
    """Lowest and highest margin that count, some way beyond nearly all of them."""
    x = histogram.locations
    share = np.cumsum(histogram.positives + histogram.negatives)
    low, high = x[np.searchsorted(share, np.array([TAIL, 1.0 - TAIL]) * share[-1])]
    if low == high:  # nearly all are equal: the distinct values decide
        low, high = np.quantile(x, [TAIL, 1.0 - TAIL])
    reach = REACH * (high - low)
    if 0.0 < reach < np.inf:
        return (float(low - reach), float(high + reach))
    return (-np.inf, np.inf)


DIGITS = 3
"""Digits of a probability up to which it is a rounded number."""


def are_rounded(histogram: ScoreHistogram) -> bool:
    """Whether all probabilities have at most ``DIGITS`` digits."""
    digits = expit(histogram.locations) * 10.0**DIGITS
    return bool(np.abs(digits - np.rint(digits)).max() < ROUNDING * 10.0**DIGITS)


def least_rounded(
    histogram: ScoreHistogram, design_effect: float, limits: tuple[float, float]
) -> float | None:
    """What an unseen exact 0 counts as, and an exact 1 less than 1; None if seen.

    There is no other score in between. It is half the least score, or the probability
    that the rows allow if none of them is positive.
    """
    u = histogram.locations
    unseen = 1.0 / (histogram.total / design_effect + 2.0)
    least = []
    is_seen = []
    for extreme, limit in ((u[0], limits[0]), (-u[-1], -limits[1])):
        is_seen.append(bool(extreme < limit))
        clip = float(expit(max(extreme, limit)))
        least.append(clip if is_seen[-1] else min(0.5 * clip, unseen))
    return None if all(is_seen) else min(least)
