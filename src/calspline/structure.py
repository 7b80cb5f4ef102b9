"""StructuredMap: what a structured multiclass fit leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from calspline import _validation
from calspline._structured.fit import StructuredFit
from calspline._structured.scale import Scale, blocks, log_scores
from calspline._threads import one_blas_thread, shared_out
from calspline._validation import MatrixScores

Array = NDArray[np.float64]

CELLS = 4096
BLOCK = 1 << 16
SAFE_EXPONENT = 300.0
GROUPS = ("intercepts", "diagonal", "matrix", "curve")
MOST_CLASSES = 100_000


@dataclass(frozen=True, eq=False)
class StructuredMap(StructuredFit):
    """Scores of all classes in, calibrated probabilities out: ``softmax(s(u) + W u + b)``.

    A row of scores becomes ``u = log((1 - e) softmax(beta z) + e / m)``, ``z`` being its log-probabilities (none
    below ``scale.floor``): temperature scaling with a grain of the uniform distribution. ``s`` is a natural
    cubic spline shared by all classes.

    Parameters
    ----------
    scale : Scale
        Floor, inverse temperature ``beta`` and share ``e`` of the uniform distribution.
    breaks : array of shape (K,)
    coefficients : array of shape (4, K + 1)
        The curve, as in :class:`~calspline.CalibrationCurve`: highest power first, the lines beyond
        the end breaks included.
    W : array of shape (m, m) or (m,), or None
        The matrix, its diagonal, or nothing.
    b : array of shape (m,)
    strengths, effective : array of shape (4,)
        Ridge strengths, and effective parameters, of intercepts, diagonal, rest of the matrix, curve.
    """

    def curve(self, u: Array) -> Array:
        """``s(u)``."""
        piece = np.searchsorted(self.breaks, u, side="right")
        t, (a, b, c, d) = u - self._anchors[piece], self.coefficients[:, piece]
        return np.asarray(((a * t + b) * t + c) * t + d)

    def slope(self, u: Array) -> Array:
        """``s'(u)``."""
        piece = np.searchsorted(self.breaks, u, side="right")
        t, (a, b, c, _) = u - self._anchors[piece], self.coefficients[:, piece]
        return np.asarray((3.0 * a * t + 2.0 * b) * t + c)

    @property
    def _anchors(self) -> Array:
        return np.concatenate([self.breaks[:1], self.breaks])

    def probabilities(self, scores: MatrixScores) -> Array:
        """Calibrated probabilities of checked scores, block by block; large arrays on all cores."""
        n, m = scores.values.shape
        out = np.empty((n, m))
        with one_blas_thread():
            for _ in shared_out(lambda rows: self._calibrate(scores, rows, out), blocks(n, m, BLOCK), n * m):
                pass
        return out

    def _calibrate(self, scores: MatrixScores, rows: slice, out: Array) -> None:
        if scores.kind == "probability":
            x = np.maximum(scores.values[rows], np.exp(self.scale.floor), order="C", dtype=np.float64)
            np.log(x, out=x)
        else:
            x = np.ascontiguousarray(log_scores(scores.values[rows].astype(np.float64), self.scale.floor))
        eta = self._eta(x)
        if not self._bounded:
            eta -= eta.max(axis=1, keepdims=True)
            np.maximum(eta, -SAFE_EXPONENT, out=eta)
        block = np.exp(eta, out=out[rows])
        block /= block.sum(axis=1, keepdims=True)
        if self.W is None:
            _keep_ranking(scores.values[rows], block)

    def _eta(self, x: Array) -> Array:
        """``s(u) + W u + b`` for log-probabilities ``x``, which are overwritten."""
        low, rate, cubes = self._table
        x *= self.scale.beta
        u = np.exp(x, out=x)
        u *= (1.0 - self.scale.uniform) / u.sum(axis=1, keepdims=True)
        u += self.scale.uniform / len(self.b)
        np.log(u, out=u)
        t = u - low
        t *= rate
        cell = t.astype(np.intp)
        t -= cell
        eta, part = cubes[0].take(cell, mode="clip"), np.empty_like(t)
        for row in cubes[1:]:
            eta *= t
            eta += row.take(cell, mode="clip", out=part)
        if self.W is not None and self.W.ndim == 2:
            blas.dgemm(1.0, self._turned, u.T, 1.0, eta.T, trans_a=1, overwrite_c=1)  # eta += u W'
        elif self.W is not None:
            u *= self.W
            eta += u
        eta += self.b
        return np.asarray(eta)

    @cached_property
    def _turned(self) -> Array | None:
        return None if self.W is None else np.asfortranarray(self.W.T)

    @cached_property
    def _table(self) -> tuple[float, float, Array]:
        """The curve on uniform cells over all ``u`` there can be: origin, cells per unit, cubics.

        Within a cell the cubic has the curve's values and slopes at both ends: the curve
        itself where the cell holds no break, and within 1e-10 of it where it does.
        """
        low = float(np.log(self.scale.uniform / len(self.b)))
        edges = np.linspace(low, 0.0, CELLS + 1)
        width = -low / CELLS
        s, d = self.curve(edges), width * self.slope(edges)
        rise = np.diff(s)
        cubes = np.array([d[:-1] + d[1:] - 2.0 * rise, 3.0 * rise - 2.0 * d[:-1] - d[1:], d[:-1], s[:-1]])
        return low, 1.0 / width, cubes

    @cached_property
    def _bounded(self) -> bool:
        """Whether ``exp(eta)`` can neither overflow nor vanish, ``u`` being bounded."""
        low, _, cubes = self._table
        reach = 0.0 if self.W is None else np.abs(self.W).reshape(len(self.b), -1).sum(axis=1).max() * -low
        return bool(np.abs(cubes[3]).max() + reach + np.abs(self.b).max() < SAFE_EXPONENT)

    def __repr__(self) -> str:
        matrix = "no matrix" if self.W is None else "a matrix" if self.W.ndim == 2 else "a diagonal"
        return (
            f"StructuredMap({len(self.b)} classes, inverse temperature {self.scale.beta:.4g}, "
            f"{len(self.breaks)} breaks, {matrix}, {1.0 + self.effective.sum():.4g} effective parameters)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        return {
            "floor": self.scale.floor,
            "beta": self.scale.beta,
            "uniform": self.scale.uniform,
            "breaks": self.breaks.tolist(),
            "coefficients": self.coefficients.T.tolist(),
            "matrix": None if self.W is None else self.W.tolist(),
            "intercepts": self.b.tolist(),
            "strengths": [s if np.isfinite(s) else None for s in self.strengths.tolist()],
            "effective": self.effective.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Any) -> StructuredMap:
        """The map that :meth:`to_dict` described; anything else is an error."""
        fields = {
            "floor", "beta", "uniform", "breaks", "coefficients", "matrix", "intercepts", "strengths", "effective",
        }  # fmt: skip
        if not isinstance(data, dict) or set(data) != fields:
            raise ValueError(f"a structure must be a dict with the keys {', '.join(sorted(fields))}")
        scale = Scale(
            _validation.number(data["floor"], "floor", below=0.0),
            _validation.number(data["beta"], "beta", above=0.0),
            _validation.number(data["uniform"], "uniform", above=0.0, below=1.0),
        )
        breaks = _validation.increasing(data["breaks"], "breaks", least=2)
        coefficients = _validation.numeric_array(data["coefficients"], "coefficients")
        b = _validation.numeric_array(data["intercepts"], "intercepts")
        W = None if data["matrix"] is None else _validation.numeric_array(data["matrix"], "matrix")
        if coefficients.shape != (len(breaks) + 1, 4):
            raise ValueError(
                f"coefficients must have {len(breaks) + 1} rows of 4 numbers; got shape {coefficients.shape}"
            )
        if b.ndim != 1 or not 3 <= len(b) <= MOST_CLASSES:
            raise ValueError(f"intercepts must be one number for each of three or more classes; got shape {b.shape}")
        if W is not None and W.shape not in ((len(b),), (len(b), len(b))):
            raise ValueError(f"matrix must be one of {len(b)} classes; got shape {W.shape}")
        strengths = [np.inf if s is None else s for s in data["strengths"]]
        effective = _validation.numeric_array(data["effective"], "effective")
        if len(strengths) != 4 or effective.shape != (4,):
            raise ValueError("strengths and effective must have 4 numbers")
        return cls(scale, breaks, np.ascontiguousarray(coefficients.T), W, b, np.array(strengths, float), effective)


def _keep_ranking(scores: NDArray[np.floating[Any]], p: Array) -> None:
    """Undo what rounding did to the order of a row, in place: the map is increasing, and so is ``p``."""
    order = np.argsort(scores, axis=1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=1)
    turned = (np.diff(ordered, axis=1) < 0.0).any(axis=1)
    for row in np.flatnonzero(turned):
        p[row, order[row]] = np.maximum.accumulate(ordered[row])
        p[row] /= p[row].sum()
