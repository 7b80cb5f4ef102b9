"""Warnings about what was probably not meant: scores of the other class, columns in another order, another kind.

Each is a test at a strict level of a deviation that matters, so that ordinary data do not set it off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, Counts
from calspline.labels import warn_user
from calspline.scores import BinaryScores, GivenScores, MatrixScores, whole

CLEARLY = -4.0
"""Standard errors below chance, which chance reaches once in thirty thousand fits of scores that mean nothing."""
LARGEST_AUC, LARGEST_SHARE = 0.38, 0.9
"""Only an AUC below this, and top choices right less often than this share of chance, are worth a word."""
LEAST_CHANCE, FEWEST_ROWS = 1e-3, 3
"""How unlikely it must be that margins all lie in [0, 1], and of how many."""


def warn_if_reversed(counts: Counts, classes: NDArray[Any], design_effect: float = 1.0) -> None:
    """Warn if scores are clearly lower where the second class happened (the test of Mann and Whitney)."""
    n1, n0 = float(counts.positives.sum()), float(counts.negatives.sum())
    if not (n1 > 0.0 and n0 > 0.0):
        return
    below = np.cumsum(counts.negatives) - 0.5 * counts.negatives
    auc = float((counts.positives / n1) @ (below / n0))
    rows1, rows0 = n1 / design_effect, n0 / design_effect
    z = (auc - 0.5) / np.sqrt((rows1 + rows0 + 1.0) / (12.0 * rows1 * rows0))
    if auc < LARGEST_AUC and z < CLEARLY:
        first, second = classes.tolist()
        warn_user(
            f"scores are lower where the class is {second!r} (AUC {auc:.2f}): perhaps they are those of {first!r}, or "
            "the labels are reversed. They are calibrated as they are"
        )


def warn_if_rows_reversed(
    scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None, classes: NDArray[Any]
) -> None:
    """The same for rows, which are sorted only if the means say so too."""
    u = scores.locations()
    w = np.ones(len(u)) if weight is None else weight
    with np.errstate(over="ignore", invalid="ignore"):
        means = [float(np.average(u[where], weights=w[where])) for where in (positive, ~positive) if where.any()]
    if len(means) == 2 and means[0] < means[1]:
        warn_if_reversed(Counts.from_rows(u, positive, weight), classes, weight_effect(weight))


def weight_effect(weight: Array | None) -> float:
    """By how much weights sum to more than the number of rows they are worth; whole ones count rows."""
    return 1.0 if weight is None or whole(weight) else float(weight / weight.sum() @ weight)


def warn_if_shuffled(
    scores: MatrixScores, codes: NDArray[np.intp], weight: Array | None, classes: NDArray[Any], effect: float
) -> None:
    """Warn if top choices are right clearly less often than if they had nothing to do with what happened."""
    values = scores.values
    top, m = values.argmax(axis=1), values.shape[1]
    w = np.full(len(top), 1.0 / len(top)) if weight is None else weight / weight.sum()
    right = float(w[top == codes].sum())
    chance = float(np.bincount(top, w, m) @ np.bincount(codes, w, m))
    rows = 1.0 / float(w @ w) / effect
    z = (right - chance) / np.sqrt(max(chance * (1.0 - chance), 1e-300) / rows)
    if right < LARGEST_SHARE * chance and z < CLEARLY:
        shown = ", ".join(map(repr, classes.tolist()[:6])) + (", ..." if m > 6 else "")
        warn_user(
            f"the class of the largest score is right in {right:.1%} of the rows, less often than by chance "
            f"({chance:.1%}): perhaps the columns are in another order than the classes ({shown}). Columns of a data "
            "frame that are named after the classes are put in their order"
        )


def share_inside(given: GivenScores) -> float | None:
    """The share of rows in [0, 1], a little towards a half; None if all are."""
    return (float(len(given) - given.rows_outside.sum()) + 1.0) / (len(given) + 2.0) if given.outside else None


def warn_if_probabilities(given: GivenScores, inside: float | None) -> None:
    """Warn if all of these margins lie in [0, 1], which by the share ``inside`` of the fit is no chance."""
    n, (low, high) = len(given), given.limits
    if inside is None or n < FEWEST_ROWS or low < 0.0 or high > 1.0 or inside**n >= LEAST_CHANCE:
        return
    warn_user(
        "scores all lie in [0, 1], as probabilities do, but this calibrator was fitted on margins, of which "
        f"{1.0 - inside:.0%} lay outside: give it what it was fitted on"
    )
