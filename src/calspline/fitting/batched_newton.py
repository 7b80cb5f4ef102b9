"""Many searches side by side, on one :class:`~calspline.fitting.newton.Newton` for all of them.

On the few hundred bins that a search looks at, numpy's overhead costs as much as the
arithmetic. Stacked along a first axis, the problems of many curves share it: all take a
Newton step at a time, and a search whose fit has settled goes on to its next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.fitting import newton
from calspline.fitting.newton import Local, Newton, Point, Problem, Solution
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
    """Problems with the same loss, as one objective with a first axis, and the fits of them that are under way.

    The problems are filled up to the same number of bins and of coordinates: a bin of no
    weight adds nothing, and a coordinate that moves no bin stays at zero.
    """

    def __init__(self, problems: Sequence[Problem], requests: Sequence[Request]) -> None:
        self._shapes = [problem.design.rows.shape for problem in problems]
        self._loss = problems[0].loss
        m, (n, K) = len(problems), np.max(self._shapes, axis=0)
        self._Z, self._w, self._s = np.zeros((m, n, K)), np.zeros((m, n)), np.zeros((m, n))
        self._slots: NDArray[np.intp] = np.arange(m)
        self._iteration = np.zeros(m, dtype=np.intp)
        self._gone: list[int] = []
        nowhere = Point(np.zeros((m, K)), np.zeros((m, n)), Local(np.zeros(m), np.zeros((m, n)), np.zeros((m, n))))
        self.newton = Newton(self, np.ones((m, K)), nowhere)
        for i, (problem, (rows, columns)) in enumerate(zip(problems, self._shapes, strict=True)):
            self._Z[i, :rows, :columns] = problem.design.rows
            self._w[i, :rows], self._s[i, :rows] = problem.w, problem.s
            self.begin(i, requests[i])

    def __len__(self) -> int:
        """Problems still in the stack."""
        return len(self._slots)

    def derivatives(self, point: Point) -> tuple[Array, Array]:
        """Gradients and Hessians of all."""
        turned = self._Z.swapaxes(1, 2)
        return _times(turned, point.local.slope), turned @ (point.local.curvature[:, :, None] * self._Z)

    def along(self, point: Point, step: Array) -> Callable[[Any], Point]:
        """The points that are so many times their steps away."""
        moves = _times(self._Z, step)

        def at(scale: Array) -> Point:
            eta = point.eta + scale[:, None] * moves
            return Point(point.u + scale[:, None] * step, eta, self._loss(eta, self._w, self._s))

        return at

    def begin(self, slot: int, request: Request) -> None:
        """Start a fit of a problem."""
        i, (rows, columns) = int(np.searchsorted(self._slots, slot)), self._shapes[slot]
        u, eta, local = self.newton.point
        self.newton.q[i, :columns], u[i, :columns], eta[i, :rows] = request.q, request.start.u, request.start.eta
        local.value[i], local.slope[i, :rows], local.curvature[i, :rows] = request.start.local
        self._iteration[i] = 0

    def leave(self, slot: int) -> None:
        """No more fits of a problem: it is dropped with the next step."""
        self._gone.append(slot)

    def step(self) -> Iterator[tuple[int, Solution]]:
        """One Newton step of every fit; those that settled, with their slots."""
        self.newton.aim()
        self.newton.search()
        self.newton.move()
        self._iteration += 1
        settled = self.newton.settled(SEARCH_TOLERANCE)
        ended = np.flatnonzero(settled | (self._iteration == newton.MAX_ITERATIONS)).tolist()
        yield from [(int(self._slots[i]), self._solution(i, bool(settled[i]))) for i in ended]
        self._close_up()

    def _solution(self, i: int, converged: bool) -> Solution:
        rows, columns = self._shapes[self._slots[i]]
        u, eta, (value, slope, curvature) = self.newton.point
        local = Local(float(value[i]), slope[i, :rows].copy(), curvature[i, :rows].copy())
        point = Point(u[i, :columns].copy(), eta[i, :rows].copy(), local)
        factor = self.newton.factor[i, :columns, :columns]
        return Solution(point, float(self.newton.value[i]), factor, converged, int(self._iteration[i]))

    def _close_up(self) -> None:
        """Drop the problems that have left."""
        if self._gone:
            stay = ~np.isin(self._slots, self._gone)
            self._gone = []
            self._slots, self._iteration = self._slots[stay], self._iteration[stay]
            self._Z, self._w, self._s = self._Z[stay], self._w[stay], self._s[stay]
            u, eta, local = self.newton.point
            self.newton.q = self.newton.q[stay]
            self.newton.point = Point(u[stay], eta[stay], Local(*(part[stay] for part in local)))


def _times(matrices: Array, vectors: Array) -> Array:
    """Each matrix times its vector."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])
