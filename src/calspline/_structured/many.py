"""Fits for many classes, where the Hessian of curve and matrix is out of reach."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from calspline._structured.scale import blocks
from calspline._structured.solver import (
    CurveOnly,
    Data,
    Estimate,
    Strengths,
    added_up,
    first_strengths,
    softmax_columns,
    solve,
)

Array = NDArray[np.float64]

MANY_ROUNDS = 10


def fit_many(data: Data, *, matrix: bool, curve_strength: float | None = None) -> Estimate:
    """For many classes: curve, then matrix, then the curve once more, each given the other.

    Without ``matrix`` only the diagonal of ``W`` is fitted.
    """
    alpha0 = first_strengths(len(data.u), float(data.w.sum()))
    curve = CurveOnly(data)
    bending = Strengths(alpha0[3:], curve.group, {0: curve_strength})
    v = solve(curve, bending, np.zeros(len(curve.group)))
    linear = Linear(data, v, matrix=matrix)
    B, shrinking = linear.fit(alpha0[:3])
    v = solve(CurveOnly(data, linear.base(B)), bending, v)
    W = B[:, 1:].copy() if matrix else np.diag(B[:, 1])
    alpha = np.concatenate([shrinking.alpha, bending.alpha])
    effective = np.concatenate([shrinking.effective, bending.effective])
    return Estimate(v, W, B[:, 0].copy(), alpha, effective)


class Linear:
    """``b`` and ``W`` (or its diagonal) given the curve, by preconditioned L-BFGS.

    In ``B = (b, W)`` the gradient is ``sum w (p - e_y) x'``, ``x = (1, u)``. The Hessian
    ``sum w (diag p - p p') (x) x x'`` is replaced by the Kronecker product ``C (x) G / tr C`` of
    ``C = sum w (diag p - p p')`` and ``G = sum h x x'``, ``h`` being a row's ``w (1 - |p|^2)``: the same
    trace, and inverted for any ridge by two eigendecompositions, ``C = U c U'``, ``G = V g V'``.
    For the diagonal alone it is replaced by its own diagonal, ``sum w p_j (1 - p_j) (1, u_j^2)``.
    """

    def __init__(self, data: Data, v: Array, *, matrix: bool) -> None:
        self.data, self.matrix = data, matrix
        m = len(data.u)
        self.bent = data.u + (data.places.table @ v)[data.places.cell]
        if matrix:
            self.group = np.full((m, m + 1), 2)
            self.group[:, 0] = 0
            self.group[np.arange(m), np.arange(m) + 1] = 1
        else:
            self.group = np.repeat([[0, 1]], m, axis=0)

    def base(self, B: Array) -> Array:
        """``u + W u + b``."""
        u = self.data.u
        out = B[:, 1:] @ u if self.matrix else B[:, 1:] * u
        out += u
        out += B[:, :1]
        return out

    def local(self, B: Array) -> tuple[float, Array]:
        """Summed loss and gradient."""
        data = self.data

        def part(rows: slice) -> list[Array]:
            y, w, u = data.y[rows], data.w[rows], data.u[:, rows]
            p, loss = self._probabilities(B, rows)
            p *= w
            p[y, np.arange(len(y))] -= w
            slopes = p @ u.T if self.matrix else np.einsum("jc,jc->j", p, u)[:, None]
            return [np.asarray(loss), np.column_stack([p.sum(axis=1), slopes])]

        f, g = added_up(part, self._rows(), data.u.size)
        return float(f), g

    def _rows(self) -> Iterator[slice]:
        return blocks(self.data.u.shape[1], len(self.data.u))

    def _probabilities(self, B: Array, rows: slice) -> tuple[Array, float]:
        """Probabilities of some rows, and their summed loss."""
        y, u = self.data.y[rows], self.data.u[:, rows]
        eta = B[:, 1:] @ u if self.matrix else B[:, 1:] * u
        eta += self.bent[:, rows]
        eta += B[:, :1]
        at_y = eta[y, np.arange(len(y))]
        p, log_total = softmax_columns(eta)
        return p, float(self.data.w[rows] @ (log_total - at_y))

    def curvature(self, B: Array) -> tuple[Array, Array | None, Array | None]:
        """Eigenvalues of the approximate Hessian, shaped as ``B``, with ``U`` and ``V`` (None: the identity)."""
        data = self.data

        def diagonal(rows: slice) -> list[Array]:
            p, _ = self._probabilities(B, rows)
            u = data.u[:, rows]
            spread = data.w[rows] * p * (1.0 - p)
            return [np.column_stack([spread.sum(axis=1), np.einsum("jc,jc,jc->j", spread, u, u)])]

        def factors(rows: slice) -> list[Array]:
            p, _ = self._probabilities(B, rows)
            w, x = data.w[rows], np.vstack([np.ones(p.shape[1]), data.u[:, rows]])
            wp = w * p
            return [np.diag(wp.sum(axis=1)) - wp @ p.T, (x * (w - np.einsum("jc,jc->c", wp, p))) @ x.T]

        if not self.matrix:
            return added_up(diagonal, self._rows(), data.u.size)[0], None, None
        C, G = added_up(factors, self._rows(), data.u.size)
        c, U = linalg.eigh(C)
        g, V = linalg.eigh(G)
        return np.outer(np.maximum(c, 0.0), np.maximum(g, 0.0)) / max(float(np.trace(C)), 1e-300), U, V

    def fit(self, alpha0: Array) -> tuple[Array, Strengths]:
        """Minimise, learning the strengths."""
        shape = self.group.shape
        B, strengths = np.zeros(shape), Strengths(alpha0, self.group)
        for _ in range(MANY_ROUNDS):
            q = strengths.each
            values, U, V = self.curvature(B)
            ridge = q if U is None else strengths.alpha[2]
            half = 1.0 / np.sqrt(values + ridge)

            def objective(
                t: Array, q: Array = q, half: Array = half, U: Array | None = U, V: Array | None = V
            ) -> tuple[float, Array]:
                point = _rotate(t.reshape(shape) * half, U, V)
                f, g = self.local(point)
                g += q * point
                return f + 0.5 * float((q * point**2).sum()), (_rotate_back(g, U, V) * half).ravel()

            start = (_rotate_back(B, U, V) / half).ravel()
            options = {"maxiter": 30, "ftol": 1e-7, "gtol": 1e-2}
            found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
            B = _rotate(found.x.reshape(shape) * half, U, V)
            inverse = half**2
            if U is not None and V is not None:  # the ridge was the same for all; now each variable's own
                inverse = U**2 @ inverse @ (V**2).T
                inverse = 1.0 / (1.0 / inverse - ridge + q)
            if strengths.update(B, inverse):
                break
        return B, strengths


def _rotate(B: Array, U: Array | None, V: Array | None) -> Array:
    return B if U is None or V is None else U @ B @ V.T


def _rotate_back(B: Array, U: Array | None, V: Array | None) -> Array:
    return B if U is None or V is None else U.T @ B @ V
