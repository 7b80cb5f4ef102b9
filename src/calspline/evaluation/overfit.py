"""How much isotonic recalibration gains by fitting noise.

The in-sample loss of isotonic regression is below that of the true curve by the
*overfit*. Its distribution is simulated with a line in log-odds in place of the true
curve, on which it hardly depends. For grouped rows, simulated outcomes are thresholded
normal variables with a common correlation, which is estimated from the residuals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import expit, ndtr, ndtri

from calspline._arrays import Array
from calspline.evaluation.calibration_test import NEARLY_CERTAIN
from calspline.evaluation.coin_flips import Ints, cell_starts, flips_like
from calspline.evaluation.losses import MIN_PROBABILITY
from calspline.evaluation.protocols import EvaluatedRows
from calspline.evaluation.recalibration import recalibrated_log_odds
from calspline.transforms import Transform

DRAWS, DRAWS_OF_MANY, MANY_ROWS = 20, 8, 4000
"""Number of draws, and fewer from this number of rows on, as draws differ less."""
DRAWS_OF_A_CLASS = 4
"""Number of draws for one of many classes, over which they are summed."""
CELLS, CELLS_OF_A_CLASS = 1 << 14, 1 << 11
"""Number of cells; coarser cells would leave less room for overfitting."""
SEED = 0


class Overfit(NamedTuple):
    """Reductions of mean losses due to overfitting, one per draw."""

    log_loss: Array
    brier: Array
    log_loss_of_events: Array
    """Contribution of the events to the log-loss, for sums over several classes."""


def simulate_overfit(rows: EvaluatedRows) -> Overfit:
    """Simulate outcomes of a two-class problem, and recalibrate them."""
    draws = DRAWS if len(rows.codes) < MANY_ROWS else DRAWS_OF_MANY
    if rows.of_many:
        draws = DRAWS_OF_A_CLASS
    f = rows.counts
    if not (f.positives.any() and f.negatives.any()):
        return Overfit(*np.zeros((3, draws)))
    n_cells = CELLS_OF_A_CLASS if rows.of_many else CELLS
    cells, flips = flips_like(f, rows, n_cells)
    q = line(rows, cells.x)
    if rows.groups is None:
        deviations = replace(flips, p=q[flips.code]).deviations(draws)
    else:
        place = cell_starts(f, n_cells)
        deviations = _grouped_deviations(rows, line(rows, rows.probs), place, draws)
    return _gains(deviations, q, cells.w)


def line(rows: EvaluatedRows, p: Array) -> Array:
    """Probabilities of a two-class problem, recalibrated by a line in log-odds."""
    q = expit(recalibrated_log_odds(rows.by_log_odds, Transform("logit")(p)))
    return np.asarray(np.clip(q, NEARLY_CERTAIN, 1.0 - NEARLY_CERTAIN))


def simulate_overfit_of_classes(rows: EvaluatedRows) -> Overfit:
    """Simulate several classes, whose recalibrated probabilities are normalized."""
    problems = rows.against_rest
    draws = DRAWS if len(rows.codes) < MANY_ROWS else DRAWS_OF_MANY
    units = _units(rows)
    by_class = np.column_stack(
        [line(problem, units.p[:, j]) for j, problem in enumerate(problems)]
    )
    place = np.column_stack(
        [
            np.searchsorted(problem.counts.x, units.p[:, j])
            for j, problem in enumerate(problems)
        ]
    )
    q = by_class / by_class.sum(axis=1, keepdims=True)
    recalibrated = np.empty_like(q)
    gains = np.zeros((2, draws))
    for k, weight in enumerate(_drawn_classes(rows, units, q, draws)):
        for j, problem in enumerate(problems):
            w = problem.counts.w
            events = np.bincount(place[:, j], weight[:, j], minlength=len(w))
            level = isotonic_regression(events / w, weights=w).x
            recalibrated[:, j] = level[place[:, j]]
        squares = (units.number * units.size) @ (by_class**2 - recalibrated**2)
        crossed = 2.0 * (weight * (by_class - recalibrated)).sum(axis=0)
        gains[1, k] = float((squares - crossed).sum())
        recalibrated /= recalibrated.sum(axis=1, keepdims=True)
        ratio = np.maximum(recalibrated, MIN_PROBABILITY) / q
        gains[0, k] = float((weight * np.log(ratio)).sum())
    gains /= rows.total
    return Overfit(gains[0], gains[1], gains[0])


class Units(NamedTuple):
    """Outcomes to simulate: their number, weights and probabilities."""

    p: Array
    number: NDArray[np.int64]
    size: Array
    groups: Ints | None


def _units(rows: EvaluatedRows) -> Units:
    """Units in an order that does not depend on that of the rows.

    Equal rows that are counts are pooled.

    Equal rows that count rows are taken together.
    """
    columns = [rows.w, *rows.probs.T]
    if rows.groups is not None:
        columns = [rows.groups, *columns]
    order = np.lexsort(columns)
    p = rows.probs[order]
    w = rows.w[order]
    if rows.groups is not None:
        return Units(p, np.ones(len(p), np.int64), w, rows.groups[order])
    if rows.unequal:
        return Units(p, np.ones(len(p), np.int64), w, None)
    differs = np.append(True, (np.diff(p, axis=0) != 0.0).any(axis=1))
    first = np.flatnonzero(differs)
    count = np.add.reduceat(w, first).astype(np.int64)
    return Units(p[first], count, np.ones(len(first)), None)


def _drawn_classes(
    rows: EvaluatedRows, units: Units, q: Array, draws: int
) -> Iterator[Array]:
    """Simulated outcomes: weight of each class by unit."""
    rng = np.random.default_rng(SEED)
    if units.groups is None:
        for _ in range(draws):
            yield rng.multinomial(units.number, q) * units.size[:, None]
        return
    event = rows.event
    correlation = latent_correlation(event, line(event, event.probs))
    ends = np.cumsum(q, axis=1)[:, :-1]
    for _ in range(draws):
        shared = rng.standard_normal(int(units.groups.max()) + 1)[units.groups]
        own = rng.standard_normal(len(q))
        latent = np.sqrt(1.0 - correlation) * own + np.sqrt(correlation) * shared
        drawn = (ndtr(latent)[:, None] > ends).sum(axis=1)
        weight = np.zeros_like(q)
        weight[np.arange(len(q)), drawn] = units.size
        yield weight


def _grouped_deviations(
    rows: EvaluatedRows, q: Array, starts: Ints, draws: int
) -> Array:
    """Simulated sums of ``y - q`` for grouped rows, shape (draws, cells)."""
    assert rows.groups is not None
    rng = np.random.default_rng(SEED)
    correlation = latent_correlation(rows, q)
    f = rows.counts
    cell = np.searchsorted(f.x[starts], rows.probs, side="right") - 1
    order = np.argsort(cell, kind="stable")
    group = rows.groups[order]
    shared = rng.standard_normal((draws, group.max() + 1))
    latent = rng.standard_normal((draws, len(group)))
    latent *= np.sqrt(1.0 - correlation)
    latent += np.sqrt(correlation) * shared[:, group]
    values = (latent < ndtri(q[order])) - q[order]
    values *= rows.w[order]
    first = np.searchsorted(cell[order], np.arange(cell.max() + 1))
    if len(first) == len(cell):
        return np.asarray(values)
    return np.asarray(np.add.reduceat(values, first, axis=1))


def latent_correlation(rows: EvaluatedRows, q: Array) -> float:
    """Correlation of the latent normal variables behind the outcomes of a group.

    This is the correlation of the residuals within groups, transformed by
    ``sin(pi r / 2)``, which is exact for events with probability 1/2.
    """
    assert rows.groups is not None
    residual = rows.codes - q
    variance = q * (1.0 - q)
    products = np.bincount(rows.groups, residual) ** 2
    largest = np.bincount(rows.groups, np.sqrt(variance)) ** 2
    of_pairs = float(products.sum() - residual @ residual)
    most = float(largest.sum() - variance.sum())
    share = of_pairs / most if most > 0.0 else 0.0
    return float(np.sin(0.5 * np.pi * np.clip(share, 0.0, 0.99)))


def _gains(deviations: Array, q: Array, w: Array) -> Overfit:
    """Gain of isotonic regression over the curve ``q`` for simulated outcomes.

    ``deviations`` are their sums minus ``w q``, by draw.
    """
    total = float(w.sum())
    hits = w * q + deviations
    log_q = np.log(q)
    log_rest = np.log1p(-q)
    # Losses of the curve: sums of outcomes times what depends on ``q`` alone.
    of_q = hits @ np.column_stack([log_q - log_rest, q, log_q])
    base = float(w @ log_rest)
    squares = float(w @ q**2)
    mean = float(w @ q)
    gains = np.empty((3, len(hits)))
    for k, sums in enumerate(hits):
        pieces = isotonic_regression(sums / w, weights=w)
        level = pieces.x[pieces.blocks[:-1]]
        inside = np.clip(level, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
        odds, of_curve, events = of_q[k]
        if level[0] < 0.0 or level[-1] > 1.0:
            # Rates of rows with weights may lie outside; they move with their piece.
            moved = np.clip(pieces.x, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
            shift = w * (moved - pieces.x)
            odds += float(shift @ (log_q - log_rest))
            of_curve += float(shift @ q)
            events += float(shift @ log_q)
        weight = pieces.weights
        of_events = float(weight @ (inside * np.log(inside)))
        of_others = float(weight @ ((1.0 - inside) * np.log1p(-inside)))
        share = float(weight @ inside)
        gains[0, k] = of_events + of_others - odds - base
        gains[1, k] = float(weight @ inside**2) - 2.0 * of_curve + squares
        # A sum over classes is not changed by subtracting what sums to zero over them.
        gains[2, k] = of_events - events - (share - mean)
    return Overfit(*(gains / total))
