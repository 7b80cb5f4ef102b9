"""The strengths of the penalties of a structured fit, learnt by evidence.

Each follows MacKay's update

    alpha = (gamma + 2) / (|theta|^2 + 2 / alpha_0),    gamma = sum_g (1 - alpha (H^{-1})_ii),

the fixed point of the Laplace evidence under a Gamma prior on ``alpha``, and never exceeds ``alpha_0``.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline.arrays import Array

CURVE_STRENGTH = 300.0
PRIOR_COUNT = 2.0
SCARCE = 5.0
"""Rows per class that the defaults count as none: with few more, everything shrinks harder."""
STRENGTH_TOLERANCE, MIN_MOVE = 0.02, 0.005
"""Moves of ``log alpha`` below which a new quadratic confirms the strengths, and below which they stay."""
MIN_STRENGTH = 1e-8
"""Below it a strength holds nothing, and a Hessian that rests on it is singular to rounding."""


def first_strengths(m: int, total: float) -> Array:
    """``alpha_0`` for ``m`` classes and this total weight.

    For the matrix they are the fixed strengths of structured matrix scaling, per row that is not scarce.
    """
    scarce = 1.0 + SCARCE * m / total
    return np.array([2.0 * m * scarce, 2.0 * m * scarce, 2.0 * m * (m - 1.0) * scarce, CURVE_STRENGTH])


def matrix_groups(m: int) -> NDArray[np.intp]:
    """The group of each entry of ``(b, W)``."""
    group = np.full((m, m + 1), 2)
    group[:, 0] = 0
    group[np.arange(m), np.arange(m) + 1] = 1
    return group


class Strengths:
    """The strengths ``alpha`` and their way to the fixed point of MacKay's update.

    The plain update creeps, or swings, by an unknown factor; a secant in ``log alpha`` for each group
    learns that factor from the last two updates. Groups in ``held`` keep the strength they are given.
    ``effective`` is the effective number of parameters ``gamma`` of each group.
    """

    def __init__(self, alpha0: Array, group: NDArray[np.intp], held: dict[int, float | None] | None = None) -> None:
        self.most = alpha0.copy()
        self.group = group
        self.effective = np.zeros(len(alpha0))
        self._held = {g: alpha for g, alpha in (held or {}).items() if alpha is not None}
        for g, alpha in self._held.items():
            self.most[g] = alpha
        self.alpha = self.most.copy()
        self._last: tuple[Array, Array] | None = None
        self._seen: tuple[Array, Array, Array] | None = None

    @property
    def each(self) -> Array:
        """The strength of every variable."""
        return np.asarray(self.alpha[self.group])

    def update(self, theta: Array, inverse: Array) -> float:
        """Update from the estimate and the diagonal of ``H^{-1}``; the largest move of ``log alpha`` it asked for."""
        k, group = len(self.most), self.group.ravel()
        gamma = np.bincount(group, weights=1.0 - self.alpha[group] * inverse.ravel(), minlength=k)
        size = np.bincount(group, weights=theta.ravel() ** 2, minlength=k)
        self.effective = np.maximum(gamma, 0.0)  # below zero only by rounding
        target = (self.effective + PRIOR_COUNT) / (size + PRIOR_COUNT / self.most)
        self._seen = theta, inverse, target
        target = np.clip(target, MIN_STRENGTH, self.most)
        target[list(self._held)] = self.most[list(self._held)]
        place = np.log(self.alpha)
        move = np.log(target) - place
        largest = float(np.abs(move).max())
        if largest < MIN_MOVE:
            return largest
        factor = np.ones(k)
        if self._last is not None:
            moved = place - self._last[0]
            far = np.abs(moved) > 1e-3
            slope = (move - self._last[1])[far] / moved[far]
            factor[far] = np.where(slope < 0.0, np.clip(-1.0 / np.minimum(slope, -1e-3), 0.5, 3.0), 3.0)
        self._last = place, move
        self.alpha = np.clip(np.exp(place + factor * move), MIN_STRENGTH, self.most)
        return largest

    def error_variance(self, inverse: Array, group: int | list[int]) -> Array:
        """The variance of an estimate that is shrunk by ``alpha`` where the data ask for ``a``, which may be more.

        It is ``(h + alpha^2 / a) / (h + alpha)^2``, ``h`` being the Hessian and ``inverse`` ``1 / (h + alpha)``.
        """
        return np.asarray(inverse * (1.0 - inverse * self._excess(group)))

    def error_root(self, root: Array, groups: list[int]) -> Array:
        """The same for all variables together, if ``groups`` ask for more.

        With ``H^{-1} = R R'`` it is a root of ``H^{-1} (H - Q + Q A^{-1} Q) H^{-1}``.
        """
        excess = np.zeros(len(self.alpha))
        excess[groups] = self._excess(groups)
        taken, along = scipy.linalg.eigh((root.T * excess[self.group]) @ root)
        return np.asarray(root @ along * np.sqrt(np.maximum(1.0 - taken, 0.0)))

    def _excess(self, group: int | list[int]) -> Array:
        """``alpha - alpha^2 / a``."""
        asked = np.array([self.asked(g) for g in np.atleast_1d(group).tolist()]).reshape(np.shape(group))
        return np.asarray(self.alpha[group] * (1.0 - self.alpha[group] / asked))

    def asked(self, g: int) -> float:
        """The strength that the data ask for of a group, which is at least ``alpha``.

        It is what the last update asked for, unless that is more than ``alpha_0``: then it is the fixed point beyond.
        There each variable stands alone; what the data say of it is ``h = 1 / (H^{-1})_ii - alpha``.
        """
        alpha = float(self.alpha[g])
        if self._seen is None:
            return alpha
        if self._seen[2][g] <= self.most[g]:
            return max(alpha, float(self._seen[2][g]))
        theta, inverse = (values.ravel()[self.group.ravel() == g] for values in self._seen[:2])
        h = np.maximum(1.0 / inverse - alpha, 0.0)

        def left(log_a: float) -> float:
            """What the fixed point's two sides differ by."""
            a = np.exp(log_a)
            size = float((((h + alpha) / (h + a) * theta) ** 2).sum())
            return float(a * (size + PRIOR_COUNT / self.most[g]) - (h / (h + a)).sum() - PRIOR_COUNT)

        low, high = np.log(alpha), np.log(self.most[g] * (1.0 + len(h) / PRIOR_COUNT))
        return alpha if left(low) >= 0.0 else float(np.exp(scipy.optimize.brentq(left, low, high)))
