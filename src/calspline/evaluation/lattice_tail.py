"""Exact tails of sums of a few coin flips, where an approximation for many would fail.

In a segment whose probabilities are almost certain, a few rows decide the sum. Its
distribution then has large atoms, and the outcome is often close to the end of the
support, where the saddlepoint approximation can be wrong by orders of magnitude. Here
the sizes of the flips are rounded to a grid, and the distribution of the rounded sum is
computed exactly: it is the inverse Fourier transform of the product of the
characteristic functions of the flips. Exponential tilting first moves the mean to the
outcome, so that small tails are as accurate as large ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calspline._arrays import Array, run_starts
from calspline.evaluation.coin_flips import CoinFlips, Ints

GRID = 512
"""Cells of the grid, an even number."""
SPAN_DEVIATIONS, SPAN_SIZES = 12.0, 2.5
"""What the grid spans: standard deviations of the tilted sum, plus largest sizes."""
LEFT_OUT = 1e-3
"""Largest probability that any of the flips left out of a sum is unlikely."""
STEEPEST_TILT = 5.0
"""Largest tilt, per cell of the grid; beyond it, the transform loses digits."""
ELEMENTS_AT_ONCE = 1 << 20
TIE = 1e-6
LARGEST_LOG = 700.0


def upper_tails(flips: CoinFlips, events: Array, tilt: Array) -> Array:
    """One-sided mid-p values of the observed sums; NaN for a sum without flips.

    ``events`` of the flips were 1. ``tilt``, which is not negative, is what a unit of
    size adds to the log-odds of a flip, such that the mean of the sum is about the
    observed one.
    """
    order = np.argsort(flips.code, kind="stable")
    flips, events = flips.select(order), events[order]
    tails = np.full(len(tilt), np.nan)
    first = run_starts(flips.code)
    ends = np.append(first[1:], len(flips.code))
    start = 0
    while start < len(first):
        # As many whole sums as fit into memory, but at least one.
        most = first[start] + ELEMENTS_AT_ONCE // GRID
        stop = max(int(np.searchsorted(ends, most, side="right")), start + 1)
        rows = slice(first[start], ends[stop - 1])
        part = flips.select(rows)
        sums = part.code[first[start:stop] - first[start]]
        local = np.searchsorted(sums, part.code)
        tails[sums] = _tails(replace(part, code=local), events[rows], tilt[sums])
        start = stop
    return tails


def _tails(flips: CoinFlips, events: Array, tilt: Array) -> Array:
    """The tails of sums whose flips are in order."""
    n = len(tilt)
    code = flips.code
    first = run_starts(flips.code)

    def total(values: Array) -> Array:
        return np.bincount(code, values, minlength=n).astype(np.float64)

    # Each flip is counted from its likelier outcome under the tilted distribution.
    tilted = flips.z + tilt[code] * flips.size
    likely = tilted > 0.0
    turned = np.where(likely, flips.count - events, events)
    move = np.where(likely, -flips.size, flips.size)
    log_odds = np.where(likely, -flips.z, flips.z)
    chance = expit(log_odds + tilt[code] * move)
    used = flips.count * chance * total(flips.count)[code] > LEFT_OUT
    deviation = np.sqrt(total(flips.count * move**2 * chance * (1.0 - chance)))
    largest = np.maximum.reduceat(np.where(used, np.abs(move), 0.0), first)
    step = (SPAN_DEVIATIONS * deviation + SPAN_SIZES * largest) / GRID
    step = np.where(step > 0.0, step, 1.0)

    cells = np.rint(move / step[code])
    theta = np.minimum(tilt * step, STEEPEST_TILT)
    log_tilted = log_odds + theta[code] * cells
    normalizer = np.logaddexp(0.0, log_tilted) - np.logaddexp(0.0, log_odds)
    log_mass = total(flips.count * normalizer)
    observed = total(turned * cells)
    mass = _probabilities(expit(log_tilted), cells, flips.count, code, used, n)

    # The grid is periodic; its cells stand for the values next to the observed one.
    middle = np.rint(observed)
    away = np.arange(-GRID // 2, GRID // 2)
    places = (middle.astype(np.int64)[:, None] + away) % GRID
    distance = middle[:, None] + away - observed[:, None]
    counted = np.where(distance > TIE, 1.0, np.where(distance >= -TIE, 0.5, 0.0))
    weight = counted * np.exp(-theta[:, None] * np.maximum(distance, 0.0))
    share = (weight * np.take_along_axis(mass, places, axis=1)).sum(axis=1)
    log_scale = np.minimum(log_mass - theta * observed, LARGEST_LOG)
    return np.asarray(np.clip(share * np.exp(log_scale), 0.0, 1.0))


def _probabilities(
    q: Array,
    cells: Array,
    count: Array,
    code: Ints,
    used: NDArray[np.bool_],
    n: int,
) -> Array:
    """Probabilities of each cell of the periodic grid, by sum.

    A flip adds ``cells`` with probability ``q``, else nothing.
    """
    frequency = np.arange(GRID // 2 + 1)
    roots = np.exp(-2j * np.pi * np.arange(GRID) / GRID)
    transform = np.ones((n, len(frequency)), dtype=np.complex128)
    if used.any():
        steps = cells[used].astype(np.int64) % GRID
        factors = 1.0 + q[used, None] * (roots[steps[:, None] * frequency % GRID] - 1.0)
        counts = count[used]
        if np.any(counts != 1.0):
            factors **= counts[:, None]
        starts = run_starts(code[used])
        transform[code[used][starts]] = np.multiply.reduceat(factors, starts, axis=0)
    return np.asarray(np.fft.irfft(transform, GRID, axis=1))
