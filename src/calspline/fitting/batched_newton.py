"""Many searches side by side: Newton's method for a stack of problems.

On the few hundred bins that a search looks at, numpy's overhead costs as much as the
arithmetic. Stacked along a first axis, the problems of many curves share it: all take a
Newton step at a time, and a search whose fit has settled goes on to its next one. Each
goes through the steps it would take alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs

from calspline.arrays import Array
from calspline.fitting.newton import (
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
from calspline.fitting.smoothing import SEARCH_TOLERANCE, Choice, Request, Search, alone

FEWEST_STACKED = 8
"""Searches from which stacking pays."""
LARGEST_STACKED = 1_000_000
"""Multiplications of a dense Gram matrix beyond which a problem is better off alone."""


def together(searches: Sequence[Search], problems: Sequence[Problem]) -> list[Choice]:
    """Run searches, the fits of each being of its one problem."""
    small = [i for i, problem in enumerate(problems) if _multiplications(problem) <= LARGEST_STACKED]
    choices: dict[int, Choice] = {}
    if len(small) >= FEWEST_STACKED:
        stack = Stack([problems[i] for i in small], [next(searches[i]) for i in small])
        while len(stack):
            for slot, solution in stack.step():
                i = small[slot]
                try:
                    stack.begin(slot, searches[i].send(solution))
                except StopIteration as end:
                    choices[i] = end.value
                    stack.leave(slot)
    return [choices[i] if i in choices else alone(search) for i, search in enumerate(searches)]


def _multiplications(problem: Problem) -> int:
    return int(problem.design.rows.size * problem.design.rows.shape[1])


class Stack:
    """Newton's method for problems with the same loss, a step of all at a time.

    The problems are filled up to the same number of bins and of coordinates: a bin of no
    weight adds nothing, and a coordinate that moves no bin stays at zero.
    """

    def __init__(self, problems: Sequence[Problem], requests: Sequence[Request]) -> None:
        self._shapes = [problem.design.rows.shape for problem in problems]
        self._loss = problems[0].loss
        m, (n, K) = len(problems), np.max(self._shapes, axis=0)
        self._Z, self._w, self._s = np.zeros((m, n, K)), np.zeros((m, n)), np.zeros((m, n))
        self._q, self._u, self._eta = np.ones((m, K)), np.zeros((m, K)), np.zeros((m, n))
        self._local = Local(np.zeros(m), np.zeros((m, n)), np.zeros((m, n)))
        self._objective, self._iteration = np.zeros(m), np.zeros(m, dtype=np.intp)
        self._slots: NDArray[np.intp] = np.arange(m)
        self._gone: list[int] = []
        for i, (problem, (rows, columns)) in enumerate(zip(problems, self._shapes, strict=True)):
            self._Z[i, :rows, :columns] = problem.design.rows
            self._w[i, :rows], self._s[i, :rows] = problem.w, problem.s
            self.begin(i, requests[i])

    def __len__(self) -> int:
        """Problems still in the stack."""
        return len(self._slots)

    def begin(self, slot: int, request: Request) -> None:
        """Start a fit of a problem."""
        i, (rows, columns) = int(np.searchsorted(self._slots, slot)), self._shapes[slot]
        u, eta, local = request.start
        self._q[i, :columns], self._u[i, :columns], self._eta[i, :rows] = request.q, u, eta
        self._local.value[i] = local.value
        self._local.slope[i, :rows], self._local.curvature[i, :rows] = local.slope, local.curvature
        self._objective[i] = local.value + 0.5 * (request.q @ (u * u))
        self._iteration[i] = 0

    def leave(self, slot: int) -> None:
        """No more fits of a problem: it is dropped with the next step."""
        self._gone.append(slot)

    def step(self) -> Iterator[tuple[int, Solution]]:
        """One Newton step of every fit; those that settled, with their slots."""
        Z, q, u, eta, local, objective = self._Z, self._q, self._u, self._eta, self._local, self._objective
        gradient = _times(Z.swapaxes(1, 2), local.slope) + q * u
        factors = _factorize(Z.swapaxes(1, 2) @ (local.curvature[:, :, None] * Z), q)
        step = -np.array([dpotrs(factor, g, lower=1)[0] for factor, g in zip(factors, gradient, strict=True)])
        moves = _times(Z, step)
        promised = -np.einsum("ij,ij->i", gradient, step)
        scale = np.ones((len(u), 1))
        for _ in range(MAX_HALVINGS):
            trial_u, trial_eta = u + scale * step, eta + scale * moves
            local = self._loss(trial_eta, self._w, self._s)
            value = local.value + 0.5 * np.einsum("ij,ij,ij->i", q, trial_u, trial_u)
            good = sufficient(value, objective, scale[:, 0] * promised)
            if good.all():
                break
            scale[~good] *= 0.5
        self._u, self._eta, self._local, self._objective = trial_u, trial_eta, local, value
        self._iteration += 1
        settled = promised <= ROUNDING * np.abs(value)
        settled |= scale[:, 0] * np.abs(moves).max(axis=1) <= SEARCH_TOLERANCE
        found = [
            (int(self._slots[i]), self._solution(i, factors[i], bool(settled[i])))
            for i in np.flatnonzero(settled | (self._iteration == MAX_ITERATIONS)).tolist()
        ]
        yield from found
        self._close_up()

    def _solution(self, i: int, factor: Array, converged: bool) -> Solution:
        rows, columns = self._shapes[self._slots[i]]
        value, slope, curvature = self._local
        local = Local(float(value[i]), slope[i, :rows].copy(), curvature[i, :rows].copy())
        point = Point(self._u[i, :columns].copy(), self._eta[i, :rows].copy(), local)
        factor = factor[:columns, :columns]
        return Solution(point, float(self._objective[i]), factor, converged, int(self._iteration[i]))

    def _close_up(self) -> None:
        """Drop the problems that have left."""
        if self._gone:
            stay = ~np.isin(self._slots, self._gone)
            self._gone = []
            self._slots, self._iteration = self._slots[stay], self._iteration[stay]
            self._Z, self._w, self._s = self._Z[stay], self._w[stay], self._s[stay]
            self._q, self._u, self._eta = self._q[stay], self._u[stay], self._eta[stay]
            self._objective, self._local = self._objective[stay], Local(*(part[stay] for part in self._local))


def _factorize(gram: Array, q: Array) -> Array:
    """The Cholesky factors of all; one by one where one has none without help."""
    H = gram.copy()
    np.einsum("ijj->ij", H)[:] += q
    try:
        return np.asarray(np.linalg.cholesky(H))
    except np.linalg.LinAlgError:
        return np.array([factorize(*each) for each in zip(gram, q, strict=True)])


def _times(matrices: Array, vectors: Array) -> Array:
    """Each matrix times its vector."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])
