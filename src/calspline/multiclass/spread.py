"""Posterior of structured maps, for limits of probabilities.

About the fit the posterior of curve, intercepts and matrix is normal, with the inverse
of the penalized Hessian as its covariance (Laplace). For limits it is kept as what it
does to ``eta``, in three parts that are independent:

* *modes*: errors of one standard deviation each, a curve (its values at the breaks)
  and, for the first of them, what is added to intercepts and matrix. Up to
  ``DENSE_CLASSES`` classes they are all there is.
* *own* variances of each intercept and each entry of the diagonal;
* a Kronecker product for the matrix of many classes: with ``x = (1, u)`` the covariance
  of ``eta`` is ``U diag(S (V' x)^2) U'``.

The log-odds of class ``j`` are ``eta_j - log sum_{k != j} exp eta_k``, so their error
is that of ``eta_j - q' eta``, with ``q`` the probabilities of the others given that it
is not ``j``: the delta method. How far the grain of the uniform distribution lifted
``eta_j`` is another error: it is a guess that no row speaks for.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import scipy

from calspline._arrays import Array, blocks
from calspline._codec import check_fields
from calspline._domains import Numbers
from calspline.fitting.basis import NaturalSpline, PiecewiseCubic, evaluate_pieces

DENSE_CLASSES = 12
"""Up to this number of classes, errors of all entries of the matrix are kept: ``m^4``
numbers."""
MODE_VALUES = 1 << 20
"""Values of modes at once."""
LEAST = 1e-15
LARGEST_NUMBER = 1e50
Variances = partial(Numbers, not_negative=True, largest=LARGEST_NUMBER)


@dataclass(frozen=True, eq=False)
class Spread:
    """The posterior of a structured map.

    ``curves`` (r, K) are those of the modes, at the breaks of the map, and ``linear``
    (q, m (m + 1)) what the first ``q`` of them add to intercepts and matrix. ``own``
    (m, 2) are variances of intercepts and diagonal, beside what else there is;
    ``left``, ``right`` and ``scale`` are ``U``, ``V`` and ``S``.
    """

    curves: Annotated[Array, Numbers("r", "K", largest=LARGEST_NUMBER)]
    linear: Annotated[Array, Numbers("q", "L", largest=LARGEST_NUMBER)] | None = None
    own: Annotated[Array, Variances("m", 2)] | None = None
    left: Annotated[Array, Numbers("m", "m", largest=LARGEST_NUMBER)] | None = None
    right: Annotated[Array, Numbers("m+1", "m+1", largest=LARGEST_NUMBER)] | None = None
    scale: Annotated[Array, Variances("m", "m+1")] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.linear is not None and len(self.linear) > len(self.curves):
            raise ValueError("linear must not have more rows than curves")
        if len({part is None for part in (self.left, self.right, self.scale)}) > 1:
            raise ValueError("left, right and scale must all be given, or none")

    def check_sizes(self, n_breaks: int, n_classes: int) -> None:
        """Check that the sizes are those of the map."""
        if self.curves.shape[1] != n_breaks:
            raise ValueError(f"spread.curves must have {n_breaks} columns")
        if self.linear is not None:
            width = n_classes * (n_classes + 1)
            if self.linear.shape[1] != width:
                raise ValueError(f"spread.linear must have {width} columns")
        for name in ("own", "left"):
            part = getattr(self, name)
            if part is not None and len(part) != n_classes:
                raise ValueError(f"spread.{name} must have {n_classes} rows")

    def scaled(self, share: float) -> Spread:
        """The covariance times ``share``."""
        factors = {
            "curves": np.sqrt(share),
            "linear": np.sqrt(share),
            "own": share,
            "scale": share,
        }
        parts = {name: getattr(self, name) for name in factors}
        return replace(
            self,
            **{
                name: one * factors[name]
                for name, one in parts.items()
                if one is not None
            },
        )

    def with_mode(self, curve: Array, linear: Array | None = None) -> Spread:
        """One more mode, of which ``linear`` is ``(b, W)``, if it has any."""
        if linear is None:
            return replace(self, curves=np.vstack([self.curves, curve]))
        others = np.empty((0, linear.size)) if self.linear is None else self.linear
        return replace(
            self,
            curves=np.vstack([curve, self.curves]),
            linear=np.vstack([linear.ravel(), others]),
        )

    def with_own(self, deviations: Array) -> Spread:
        """Errors of intercepts and diagonal, with standard deviations (m, 2)."""
        own = deviations**2
        return replace(self, own=own if self.own is None else self.own + own)

    def rounded(self) -> Spread:
        """With few digits."""
        parts: dict[str, Any] = {
            each.name: _rounded(getattr(self, each.name)) for each in fields(self)
        }
        return Spread(**parts)

    def log_odds_variance(
        self, breaks: Array, u: Array, p: Array, lift: Array
    ) -> Array:
        """Variance of the log-odds of every class, shape (n, m), at ``u``.

        ``lift`` is a standard deviation that each ``eta`` has besides.
        """
        n, m = p.shape
        curve = self._modes(breaks)
        out = np.empty(p.shape)
        for rows in blocks(n, m * max(len(self.curves), 1), MODE_VALUES):
            out[rows] = self._variance(curve, u[rows], p[rows], lift[rows])
        return out

    def sum_variance(self, breaks: Array, u: Array, weights: Array) -> float:
        """Variance of the sum of ``weights * eta`` over rows and classes, at ``u``."""
        curve = self._modes(breaks)
        piece, t = curve.locate(u.ravel())
        # A sum of cubics needs the sums of the powers in each piece only.
        powers = [
            np.bincount(piece, weights.ravel() * t**k, curve.coefficients.shape[1])
            for k in (3, 2, 1, 0)
        ]
        modes = np.tensordot(np.array(powers), curve.coefficients, axes=2)
        linear = weights.T @ np.column_stack([np.ones(len(u)), u])
        if self.linear is not None:
            modes[: len(self.linear)] += self.linear @ linear.ravel()
        variance = float(modes @ modes)
        if self.own is not None:
            variance += float(
                self.own[:, 0] @ linear[:, 0] ** 2
                + self.own[:, 1] @ np.diag(linear[:, 1:]) ** 2
            )
        if self.left is not None and self.right is not None and self.scale is not None:
            variance += float(
                (self.scale * (self.left.T @ linear @ self.right) ** 2).sum()
            )
        return variance

    def _modes(self, breaks: Array) -> PiecewiseCubic:
        """The curves of all modes."""
        spline = NaturalSpline(breaks)
        return PiecewiseCubic(
            breaks,
            np.tensordot(spline.pieces, spline.interpolate(self.curves.T), axes=1),
        )

    def _variance(
        self, curve: PiecewiseCubic, u: Array, p: Array, lift: Array
    ) -> Array:
        n, m = p.shape
        piece, t = curve.locate(u.ravel())
        A = evaluate_pieces(curve.coefficients, piece, t).reshape(n, m, -1)
        x = np.column_stack([np.ones(n), u])
        if self.linear is not None:
            q = len(self.linear)
            A[:, :, :q] += (
                (x @ self.linear.reshape(q * m, -1).T)
                .reshape(n, q, m)
                .transpose(0, 2, 1)
            )
        if self.own is None:
            own = lift**2
        else:
            own = lift**2 + self.own[:, 0] + self.own[:, 1] * u**2

        def against(p: Array) -> Array:
            """The variance of ``eta_j - p' eta`` for every class ``j``."""
            errors = A - np.matmul(p[:, None], A)
            squares = p**2 * own
            out: Array = np.einsum("njr,njr->nj", errors, errors)
            out += (1.0 - p) ** 2 * own - squares + squares.sum(axis=1, keepdims=True)
            if (
                self.left is not None
                and self.right is not None
                and self.scale is not None
            ):
                S = (x @ self.right) ** 2 @ self.scale.T
                mean = p @ self.left
                out += (
                    S @ (self.left**2).T
                    - 2.0 * (S * mean) @ self.left.T
                    + (S * mean**2).sum(axis=1, keepdims=True)
                )
            return out

        # Of the most probable class 1 - p has no digits left where p is nearly 1, but
        # the others' sum has them all.
        top = p.argmax(axis=1)
        row = np.arange(n)
        others = p.copy()
        others[row, top] = 0.0
        rest = others.sum(axis=1)
        others /= np.where(rest > 0.0, rest, 1.0)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = against(p) / (1.0 - p) ** 2
        variance[row, top] = against(others)[row, top]
        return np.maximum(variance, 0.0)


def limits(p: Array, reach: Array) -> Array:
    """Probabilities with log-odds ``reach`` below and above those of ``p``."""
    log_odds = scipy.special.logit(np.minimum(p, 0.5))
    sure = np.nonzero(p > 0.5)
    others = p[sure[0]]
    others[np.arange(len(others)), sure[1]] = 0.0
    log_odds[sure] = np.log(p[sure]) - np.log(others.sum(axis=1))
    ends = scipy.special.expit(log_odds[..., None] + reach[..., None] * [-1.0, 1.0])
    return np.asarray(np.clip(ends, LEAST, 1.0 - LEAST))


DIGITS = 6
"""Number of significant digits to store: limits need no more, and files are half as
long."""


def _rounded(values: Array | None) -> Array | None:
    """Round to ``DIGITS`` significant digits, in the memory layout of loaded files."""
    if values is None:
        return None
    with np.errstate(all="ignore"):
        place = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(values))))
        return np.ascontiguousarray(
            np.where(
                np.isfinite(place) & (place > 0.0),
                np.round(values * place) / place,
                0.0,
            )
        )
