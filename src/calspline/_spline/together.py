"""Many searches side by side: Newton's method for a stack of problems.

On the few hundred bins that a search looks at, numpy's overhead costs more than the
arithmetic. Stacked along a first axis, the problems of many curves share it. Each curve
goes through the same steps as it would alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs

from calspline._spline.penalized import (
    MAX_HALVINGS,
    MAX_ITERATIONS,
    ROUNDING,
    Local,
    Point,
    Problem,
    Solution,
    factorize,
    sufficient,
)
from calspline._spline.smoothing import SEARCH_TOLERANCE, Choice, Request, Search, alone

Array = NDArray[np.float64]

LARGEST_STACKED = 1_000_000
"""Multiplications of a dense Gram matrix beyond which a problem is better off alone."""


def together(searches: Sequence[Search], problems: Sequence[Problem]) -> list[Choice]:
    """Run searches, the fits of each being of its one problem."""
    choices: dict[int, Choice] = {}
    small = [i for i, problem in enumerate(problems) if _size(problem) <= LARGEST_STACKED]
    if len(small) < 2:
        small = []
    stack = Stack([problems[i] for i in small]) if small else None
    asked = {i: next(searches[i]) for i in small}
    while asked and stack is not None:
        slots = np.searchsorted(small, list(asked))
        for i, solution in zip(list(asked), stack.minimize(slots, list(asked.values())), strict=True):
            try:
                asked[i] = searches[i].send(solution)
            except StopIteration as end:
                choices[i] = end.value
                del asked[i]
    return [choices[i] if i in choices else alone(search) for i, search in enumerate(searches)]


def _size(problem: Problem) -> int:
    n, K = problem.design.rows.shape
    return n * K * K


class Stack:
    """Problems with the same loss, filled up to the same number of bins and of coordinates.

    A bin of no weight adds nothing, and a coordinate that moves no bin stays at zero.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.shapes = [problem.design.rows.shape for problem in problems]
        n, K = np.max(self.shapes, axis=0)
        self.loss = problems[0].loss
        self.Z = np.zeros((len(problems), n, K))
        self.offset, self.w, self.s = np.zeros((3, len(problems), n))
        for i, (problem, (rows, columns)) in enumerate(zip(problems, self.shapes, strict=True)):
            self.Z[i, :rows, :columns] = problem.design.rows
            self.offset[i, :rows], self.w[i, :rows], self.s[i, :rows] = problem.offset, problem.w, problem.s

    def minimize(self, slots: NDArray[np.intp], requests: Sequence[Request]) -> list[Solution]:
        """What :func:`~calspline._spline.penalized.minimize` finds for each, without constraints."""
        Z, offset, w, s = (array[slots] for array in (self.Z, self.offset, self.w, self.s))
        q, u = np.ones((len(slots), Z.shape[2])), np.zeros((len(slots), Z.shape[2]))
        for i, request in enumerate(requests):
            q[i, : len(request.q)], u[i, : len(request.q)] = request.q, request.start.u
        solutions: dict[int, Solution] = {}
        left = np.arange(len(slots))
        eta = offset + _times(Z, u)
        local = self.loss(eta, w, s)
        objective = local.value + _half_square(q, u)
        for iteration in range(1, MAX_ITERATIONS + 1):
            gradient = _times(Z.swapaxes(1, 2), local.slope) + q * u
            gram = Z.swapaxes(1, 2) @ (local.curvature[:, :, None] * Z)
            factors = [factorize(*each) for each in zip(gram, q, strict=True)]
            step = -np.array([dpotrs(factor, g, lower=1)[0] for factor, g in zip(factors, gradient, strict=True)])
            moves = _times(Z, step)
            promised = -np.einsum("ij,ij->i", gradient, step)
            scale = np.ones((len(u), 1))
            for _ in range(MAX_HALVINGS):
                trial_u, trial_eta = u + scale * step, eta + scale * moves
                local = self.loss(trial_eta, w, s)
                value = local.value + _half_square(q, trial_u)
                good = sufficient(value, objective, scale[:, 0] * promised)
                if good.all():
                    break
                scale[~good] *= 0.5
            u, eta, objective = trial_u, trial_eta, value
            settled = promised <= ROUNDING * np.abs(objective)
            settled |= scale[:, 0] * np.abs(moves).max(axis=1) <= SEARCH_TOLERANCE
            last = iteration == MAX_ITERATIONS
            for i in range(len(u)) if last else np.flatnonzero(settled):
                rows, columns = self.shapes[slots[left[i]]]
                at = Local(local.value[i], local.slope[i, :rows], local.curvature[i, :rows])
                point = Point(u[i, :columns], eta[i, :rows], at)
                factor = factors[i][:columns, :columns]
                solutions[left[i]] = Solution(point, float(objective[i]), factor, bool(settled[i]), iteration)
            if settled.all():
                break
            if settled.any():
                go = ~settled
                local = Local(*(part[go] for part in local))
                left, Z, w, s, q, u, eta, objective = (a[go] for a in (left, Z, w, s, q, u, eta, objective))
        return [solutions[i] for i in range(len(slots))]


def _times(matrices: Array, vectors: Array) -> Array:
    """Each matrix times its vector."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _half_square(q: Array, u: Array) -> Array:
    return np.asarray(0.5 * np.einsum("ij,ij,ij->i", q, u, u))
