"""Rows of several classes by segment: intercepts and a temperature for each.

With ``l`` the log-probabilities of the common map and ``z`` the same, centred in each row and scaled, segment ``s`` has

    softmax(l + t_s z + a_s),

an inverse temperature and an intercept for each class of its own. They are found and shrunk as those of curves are:
see :mod:`calspline.fitting.segments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from calspline.arrays import Array
from calspline.fitting.segments import START, Components, Likelihood, Summed

MOST_INTERCEPTS = 50
"""Classes up to which segments have intercepts; beyond, only a temperature."""
USUAL_SD = np.array([0.5, 0.2])
"""Means of exponential priors on the standard deviations of intercepts and of temperatures."""

Codes = NDArray[np.intp]


def scaled(logs: Array, unit: float = 1.0) -> Array:
    """Log-probabilities, centred in each row, in units."""
    return np.asarray((logs - logs.mean(axis=1, keepdims=True)) / unit)


def class_components(m: int, *, intercepts: bool = True) -> Components:
    """A variance for the intercepts of all classes, if they have any, and one for temperatures.

    What is common to all segments is free.
    """
    n_intercepts = m if intercepts and m <= MOST_INTERCEPTS else 0
    kind = np.append(np.zeros(n_intercepts, dtype=np.intp), 1)
    return Components(kind, np.full(len(kind), -1), np.full(2, START), USUAL_SD)


@dataclass(frozen=True)
class ClassRows:
    """Rows with the log-probabilities of the common map, their class and weight, and their segments in each column."""

    logs: Array
    classes: Codes
    w: Array
    codes: list[Codes]
    unit: float

    @property
    def sizes(self) -> list[int]:
        """How many segments each column has."""
        return [int(code.max(initial=-1)) + 1 for code in self.codes]

    @cached_property
    def _z(self) -> Array:
        return scaled(self.logs, self.unit)

    def likelihood(self, k: int, thetas: Sequence[Array]) -> Likelihood:
        """The loss as a function of the coordinates of column ``k``, given the effects of the others, if any."""
        code = self.codes[k]
        order = np.argsort(code, kind="stable")
        order = order[np.searchsorted(code[order], 0) :]
        S = self.sizes[k]
        first = np.searchsorted(code[order], np.arange(S + 1)).astype(np.intp)
        segment = code[order]
        z, w, y = self._z[order], self.w[order], self.classes[order]
        offset = self.logs[order]
        for j, theta in enumerate(thetas):
            if j != k:
                offset = offset + added(z, theta, self.codes[j][order])
        rows = np.arange(len(y))

        def at(U: Array) -> Summed:
            logs = log_softmax(offset + added(z, U, segment), axis=1)
            p = np.exp(logs)
            slope = w[:, None] * p
            slope[rows, y] -= w
            wp, mean = w[:, None] * p, (p * z).sum(axis=1)
            d = U.shape[1]
            gradient, H = np.empty((S, d)), np.empty((S, d, d))
            gradient[:, -1] = np.add.reduceat((slope * z).sum(axis=1), first[:-1])
            H[:, -1, -1] = np.add.reduceat(w * ((p * z * z).sum(axis=1) - mean**2), first[:-1])
            if d > 1:
                gradient[:, :-1] = np.add.reduceat(slope, first[:-1], axis=0)
                H[:, -1, :-1] = H[:, :-1, -1] = np.add.reduceat(wp * (z - mean[:, None]), first[:-1], axis=0)
                diagonal = np.add.reduceat(wp, first[:-1], axis=0)
                for s in range(S):
                    part = slice(first[s], first[s + 1])
                    H[s, :-1, :-1] = np.diag(diagonal[s]) - wp[part].T @ p[part]
            return Summed(-float(w @ logs[rows, y]), gradient, H)

        return at


def added(z: Array, theta: Array, code: Codes, new: Array | float = 0.0) -> Array:
    """What segments add to the log-odds of each row: ``t z + a``; -1 is a segment with the effects ``new``."""
    own = np.vstack([theta, np.broadcast_to(new, theta.shape[1])])[code]
    return own[:, -1:] * z + (own[:, :-1] if theta.shape[1] > 1 else 0.0)
