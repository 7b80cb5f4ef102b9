"""StructuredMap: what a structured multiclass fit leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array, Workspace, blocks, one_blas_thread
from calspline._codec import check_fields
from calspline._domains import MatrixOrDiagonal, Numbers
from calspline._expression import (
    Constant,
    Expression,
    Pieces,
    Program,
    call,
    logits_in_unit,
    name,
)
from calspline._input.scores import Kind, MatrixScores
from calspline.fitting.basis import PiecewiseCubic
from calspline.maps.base import CalibrationMap, Segments, Table
from calspline.maps.curve import pieces_table
from calspline.maps.log_odds import LogOdds, log_odds_of_rows
from calspline.multiclass.scale import (
    MAX_EXPONENT,
    Scale,
    log_scores,
)
from calspline.multiclass.spread import LARGEST_NUMBER, LEAST, Spread
from calspline.transforms import Source

Indices = NDArray[np.int64]

MANTISSA = 52
"""Digits of a double behind its leading one."""
DIGITS = 8
"""Number of leading digits that determine the cell of a number in a table."""
BLOCK = 1 << 15
SAFE_EXPONENT = 300.0
GROUPS = ("intercepts", "diagonal", "matrix", "curve")
MAX_CLASSES = 100_000
FARTHEST_BREAK = 1e4
"""More than any fit gives, and too little for the sums of a row to overflow."""


@dataclass(frozen=True, eq=False)
class StructuredMap(CalibrationMap[MatrixScores]):
    """Structured calibration map of several classes: ``softmax(s(u) + W u + b)``.

    A row of scores becomes ``u = log((1 - e) softmax(beta z) + e / m)``: temperature
    scaling with a grain of the uniform distribution. ``z`` are log-probabilities, or
    logits times ``scale.unit``, none below ``scale.floor``. ``s`` is a natural cubic
    spline shared by all classes.

    Parameters
    ----------
    scale : Scale
        Floor, inverse temperature ``beta``, share ``e`` of the uniform distribution,
        and the unit of logits.
    breaks : array of shape (K,)
    coefficients : array of shape (4, K + 1)
        The curve, as in :class:`~calspline.CalibrationCurve`: highest power first, the
        lines beyond the end breaks included.
    W : array of shape (m, m) or (m,), or None
        The matrix, its diagonal, or nothing.
    b : array of shape (m,)
    strengths, effective : array of shape (4,)
        Ridge strengths as they were learned, and effective degrees of freedom that
        are left after averaging with the cautious fit, of intercepts, diagonal, rest
        of the matrix, curve.
    converged : bool
        Whether the fit came to an end.
    spread : Spread, optional
        The posterior, for limits.
    """

    scale: Scale
    breaks: Annotated[
        Array, Numbers("K", least=2, increasing=True, largest=FARTHEST_BREAK)
    ]
    coefficients: Annotated[Array, Numbers(4, "K+1", largest=LARGEST_NUMBER)]
    W: Annotated[Array, MatrixOrDiagonal("m", largest=LARGEST_NUMBER)] | None
    b: Annotated[Array, Numbers("m", least=3, most=MAX_CLASSES, largest=LARGEST_NUMBER)]
    strengths: Annotated[Array, Numbers(len(GROUPS), infinite=True)]
    effective: Annotated[Array, Numbers(len(GROUPS))]
    converged: bool = True
    spread: Spread | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.spread is not None:
            self.spread.check_sizes(len(self.breaks), len(self.b))

    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether there are as many classes."""
        return n_classes == len(self.b)

    @property
    def structure(self) -> StructuredMap:
        """The map itself."""
        return self

    def curve(self, u: Array) -> Array:
        """``s(u)``."""
        return self._cubic(u)

    def slope(self, u: Array) -> Array:
        """``s'(u)``."""
        return self._cubic.slope(u)

    @cached_property
    def _cubic(self) -> PiecewiseCubic:
        return PiecewiseCubic(self.breaks, self.coefficients)

    def probabilities(
        self, scores: MatrixScores, segments: Segments | None = None
    ) -> Array:
        """Calibrated probabilities of checked scores, block by block."""
        n, m = scores.values.shape
        out = np.empty((n, m))
        parts = list(blocks(n, m, BLOCK))
        workspace = Workspace(parts, m, np.float64, np.float64, np.float64, np.int64)
        with one_blas_thread():
            for rows in parts:
                work = workspace.views(rows)
                self._calibrate(scores.kind, scores.values[rows], out[rows], *work)
        return out

    def _calibrate(
        self,
        kind: Kind,
        values: NDArray[Any],
        out: Array,
        q: Array,
        t: Array,
        part: Array,
        cell: Indices,
    ) -> None:
        """Compute ``softmax(s(u) + W u + b)`` of some rows into ``out``."""
        if kind == "probability":
            np.log(
                np.maximum(values, np.exp(self.scale.floor), out=q, dtype=np.float64),
                out=q,
            )
        else:
            log_scores(values, self.scale.floor, self.scale.unit, out=q)
        q *= self.scale.beta
        np.exp(q, out=q)
        q *= (1.0 - self.scale.uniform) / q.sum(axis=1, keepdims=True)
        q += self.scale.uniform / len(self.b)
        self._curve.bend(q, t, part, cell, out)
        np.log(q, out=q)
        if self.W is None:
            out += q
        elif self.W.ndim == 1:
            q *= self._linear
            out += q
        else:
            scipy.linalg.blas.dgemm(
                1.0, self._linear, q.T, 1.0, out.T, trans_a=1, overwrite_c=1
            )  # out += q (I + W)'
        out += self.b
        if not self._bounded:
            out -= out.max(axis=1, keepdims=True)
            np.maximum(out, -SAFE_EXPONENT, out=out)
        np.exp(out, out=out)
        out *= 1.0 / out.sum(axis=1, keepdims=True)
        if out.size and out.max() > 1.0 - LEAST:
            _keep_from_one(out)
        if self.W is None:
            _keep_ranking(values, out)

    def log_odds_variance(self, scores: MatrixScores, p: Array) -> Array:
        """Variance of the log-odds of every class, shape (n, m)."""
        if self.spread is None:
            raise ValueError(
                "this calibrator was saved by a version that did not keep what limits "
                "of several classes need; "
                "fit it again"
            )
        u = self._tempered(scores)
        grain = np.minimum(self.scale.uniform / len(self.b) * np.exp(-u), 1.0 - LEAST)
        return self.spread.log_odds_variance(
            self.breaks, u, p, -np.log1p(-grain) * self.slope(u)
        )

    def log_odds(
        self,
        scores: MatrixScores,
        segments: Segments | None = None,
        *,
        at: Array | None = None,
    ) -> LogOdds | None:
        """Log-odds of every class and standard deviations, by the delta method."""
        p = self.probabilities(scores) if at is None else at
        return LogOdds(log_odds_of_rows(p), np.sqrt(self.log_odds_variance(scores, p)))

    def noise(self, scores: MatrixScores) -> Array:
        """Empty: individual errors are not stored for several classes."""
        return np.empty((0, len(scores.values)))

    def formula(self, source: Source, kind: Kind) -> Program:
        """The map in steps that every export can write."""
        return self.program(kind)

    def sum_variance(self, scores: MatrixScores, weights: Array) -> float:
        """Variance of the sum of ``weights * eta`` over rows and classes."""
        if self.spread is None:
            return 0.0
        return self.spread.sum_variance(self.breaks, self._tempered(scores), weights)

    def _tempered(self, scores: MatrixScores) -> Array:
        """The ``u`` of checked scores, shape (n, m)."""
        values = scores.values.astype(np.float64, copy=False)
        if scores.kind == "probability":
            with np.errstate(divide="ignore"):
                values = np.log(values)
        return self.scale.tempered(
            log_scores(values, self.scale.floor, self.scale.unit)
        )

    @cached_property
    def _curve(self) -> CurveTable:
        return CurveTable(self.curve, self.scale.uniform / len(self.b))

    @cached_property
    def _linear(self) -> Array:
        """``I + W`` in the layout for BLAS, or its diagonal."""
        assert self.W is not None
        if self.W.ndim == 1:
            return 1.0 + self.W
        return np.asfortranarray((np.eye(len(self.b)) + self.W).T)

    @cached_property
    def _bounded(self) -> bool:
        """Whether ``exp(eta)`` can neither overflow nor vanish, ``u`` being bounded."""
        lowest = float(np.log(self.scale.uniform / len(self.b)))
        if self.W is None:
            reach = 0.0
        else:
            reach = np.abs(self.W).reshape(len(self.b), -1).sum(axis=1).max() * -lowest
        highest = np.abs(
            self.curve(np.append(np.linspace(lowest, 0.0, 1000), self.breaks))
        ).max()
        return bool(highest + reach + np.abs(self.b).max() < SAFE_EXPONENT)

    def program(self, kind: Kind) -> Program:
        """The map in steps that every export can write."""
        steps: list[tuple[str, Expression]] = []
        p = name("p")
        q = name("q")
        u = name("u")
        scale = self.scale
        if kind == "margin":
            if scale.unit is None:
                steps.append(("logs", call("log_softmax", p)))
                x = name("logs")
            else:
                logits = logits_in_unit(scale.unit, -MAX_EXPONENT)
                steps += logits.steps
                x = logits.result
            steps.append(("v", scale.beta * call("max", x, scale.floor)))
        else:
            steps += [
                (
                    "v",
                    scale.beta
                    * call("log", call("max", p, float(np.exp(scale.floor)))),
                )
            ]
        mixed = (1.0 - scale.uniform) * q + scale.uniform / len(self.b)
        steps += [("q", call("softmax", name("v"))), ("u", call("log", mixed))]
        curve = Expression(
            "cubic", (u,), Pieces(self.breaks.tolist(), self.coefficients.T.tolist())
        )
        steps.append(("f", curve))
        y = name("f") + Constant("INTERCEPTS", self.b.tolist()).expression
        if self.W is not None and self.W.ndim == 2:
            steps.append(
                ("w", Expression("matrix", (u,), Constant("MATRIX", self.W.tolist())))
            )
            y = y + name("w")
        elif self.W is not None:
            y = y + Constant("DIAGONAL", self.W.tolist()).expression * u
        return Program([*steps, ("y", y)], call("softmax", name("y")))

    def __repr__(self) -> str:
        matrix = (
            "no matrix"
            if self.W is None
            else "a matrix"
            if self.W.ndim == 2
            else "a diagonal"
        )
        return (
            f"StructuredMap({len(self.b)} classes, inverse temperature "
            f"{self.inverse_temperature:.4g}, "
            f"{len(self.breaks)} breaks, {matrix}, {1.0 + self.effective.sum():.4g} "
            "effective degrees of freedom)"
        )

    @property
    def inverse_temperature(self) -> float:
        """Factor of log-probabilities or logits, before the curve."""
        return self.scale.beta * (1.0 if self.scale.unit is None else self.scale.unit)

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code."""
        scale = self.scale
        table: Table = {"type": "structured", "scores": kind}
        table |= {"floor": scale.floor, "beta": scale.beta, "uniform": scale.uniform}
        if scale.unit is not None:
            table["unit"] = scale.unit
        table["pieces"] = pieces_table(self.breaks, self.coefficients)
        table["intercepts"] = self.b.tolist()
        if self.W is not None:
            table["matrix" if self.W.ndim == 2 else "diagonal"] = self.W.tolist()
        return table

    def describe(self) -> list[str]:
        """Lines of a summary: temperature, parameters and shrinkage."""
        rise = float(
            np.diff(self.curve(self.breaks[[0, -1]]))[0]
            / (self.breaks[-1] - self.breaks[0])
        )
        beta = self.inverse_temperature
        lines = [
            f"  inverse temperature {beta:.4g}, and the curve's mean slope {rise:.3g}"
        ]
        for part, strength, effective in zip(
            GROUPS, self.strengths, self.effective, strict=True
        ):
            flexibility = f"{effective:.1f} effective degrees of freedom"
            shrunk = f"strength {strength:.3g}, {flexibility}"
            lines.append(f"  {part}: {'not used' if np.isinf(strength) else shrunk}")
        return lines


def _keep_from_one(p: Array) -> None:
    """Keep probabilities from being exactly 1, in place."""
    sure = p.max(axis=1) > 1.0 - LEAST
    rows = np.maximum(p[sure], LEAST)
    p[sure] = rows / rows.sum(axis=1, keepdims=True)


def _keep_ranking(scores: NDArray[np.floating[Any]], p: Array) -> None:
    """Restore the order of classes in a row after rounding, in place."""
    order = np.argsort(scores, axis=1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=1)
    turned = (np.diff(ordered, axis=1) < 0.0).any(axis=1)
    for row in np.flatnonzero(turned):
        p[row, order[row]] = np.maximum.accumulate(ordered[row])
        p[row] /= p[row].sum()


class CurveTable:
    """The bend ``s(u) - u`` at ``q = exp(u)`` in ``[low, 1]``.

    The leading binary digits of ``q`` are its cell, and ``t = q / c``, with ``c`` the
    cell's left edge, its place there. Every cell has a parabola in ``t``, through the
    bend at both ends and in the middle, which is within some 1e-9 of it.
    """

    def __init__(self, curve: Callable[[Array], Array], low: float) -> None:
        self.first, last = (
            np.array([low, 1.0]).view(np.int64) >> MANTISSA - DIGITS
        ).tolist()
        edges = (
            np.arange(self.first, last + 2, dtype=np.int64) << MANTISSA - DIGITS
        ).view(np.float64)
        self.inverse = 1.0 / edges[:-1]
        middle = 0.5 * (edges[:-1] + edges[1:])
        at_edges, at_middle = (curve(np.log(q)) - np.log(q) for q in (edges, middle))
        h = np.diff(edges) / edges[:-1]
        rise = np.diff(at_edges)
        sag = at_middle - at_edges[:-1]
        slope = (4.0 * sag - rise) / h
        bow = 2.0 * (rise - 2.0 * sag) / h**2
        # a + slope (t - 1) + bow (t - 1)^2, by powers of t
        self.parabolas = np.array([bow, slope - 2.0 * bow, at_edges[:-1] - slope + bow])

    def bend(self, q: Array, t: Array, part: Array, cell: Indices, out: Array) -> None:
        """Compute ``s(log q) - log q`` into ``out``; overwrites the work arrays."""
        np.right_shift(q.view(np.int64), MANTISSA - DIGITS, out=cell)
        cell -= self.first
        self.inverse.take(cell, mode="clip", out=t)
        t *= q
        self.parabolas[0].take(cell, mode="clip", out=out)
        for row in self.parabolas[1:]:
            out *= t
            out += row.take(cell, mode="clip", out=part)
