"""How far the curve of a segment that was never seen may lie from the common one.

With few segments their variance is uncertain: two of them may be alike by chance. So
limits for a new segment average over the variance. Of effects of one kind let ``e_s``
be the estimates from the rows of each segment alone, and ``h_s`` their information.
Given the variance ``tau``, ``e_s ~ N(b, tau + 1 / h_s)``, with a common part ``b`` of
which nothing is known beforehand. Standard deviations have a half-Cauchy prior (Gelman,
*Prior distributions for variance parameters in hierarchical models*, Bayesian Analysis
1, 2006). A new effect has a mixture of normal distributions, and its variance is taken
to be that of the normal distribution with the same 95% limits.
"""

from __future__ import annotations

import numpy as np
import scipy

from calspline._arrays import Array

SPREADS = np.geomspace(0.03, 50.0, 30)
"""Standard deviations that are averaged over, in units of the usual one."""
SCALE = 0.8
"""Scale of the prior, in the same units, for which limits are valid after two or three
segments."""
LEVEL = 0.95
FARTHEST = 1e3
"""Log-odds by which segments may seem to differ; rows of one class give any number."""
HALVINGS = 16
"""Number of halvings of the range of standard deviations, on a logarithmic scale."""


def new_variance(e: Array, h: Array, usual: float) -> float:
    """The variance of a new effect about the estimate of the common part.

    ``usual`` is the standard deviation that is usual between segments.
    """
    tau = (usual * SPREADS)[:, None] ** 2
    shrunk = 1.0 + h * tau
    precision = h / shrunk
    total = precision.sum(axis=1)
    if not total[-1] > 0.0:
        return 0.0
    e = np.clip(e, -FARTHEST, FARTHEST)
    centre = precision @ e / total
    misfit = (precision * (e - centre[:, None]) ** 2).sum(axis=1)
    evidence = -0.5 * (np.log(shrunk).sum(axis=1) + np.log(total) + misfit)
    prior = np.log(SPREADS) - np.log1p((SPREADS / SCALE) ** 2)
    weight = scipy.special.softmax(evidence + prior)
    sd = np.sqrt(tau[:, 0] + 1.0 / total)
    return _limit(weight, sd) ** 2


def _limit(weight: Array, sd: Array) -> float:
    """The standard deviation of a normal distribution with the limits of a mixture."""
    critical = float(scipy.special.ndtri(0.5 + 0.5 * LEVEL))
    low = float(sd.min())
    high = float(sd.max())
    for _ in range(HALVINGS):
        middle = np.sqrt(low * high)
        inside = float(
            weight @ (2.0 * scipy.special.ndtr(critical * middle / sd) - 1.0)
        )
        if inside < LEVEL:
            low = middle
        else:
            high = middle
    return float(high)
