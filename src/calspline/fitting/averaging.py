"""Averaging over how far the line may move and how much the curve may bend.

Two nearly free parameters of the line cost a good model about ``1/n`` nats each; a tight prior on them costs a bad
model far more. So neither is chosen. With ``sigma`` the prior's standard deviation of the line's two coordinates and
``lambda`` the smoothing, fits are averaged with weights in proportion to ``exp(-C(sigma, lambda))``, ``C`` being the
Laplace approximation of the negative log marginal likelihood (Hoeting et al., *Bayesian model averaging: a tutorial*,
Statistical Science 14, 1999). Values of ``sigma`` halve and values of ``lambda`` go by decades, so that neither has a
scale that is preferred beforehand.

One fit for each smoothing is enough. Let ``P = L L'`` be the Hessian at the fit ``u`` whose line has prior precision
``tau``, and ``G = V diag(g) V'`` the line's 2 x 2 block of the inverse of ``P``. About that fit the loss is close to a
quadratic, and for precision ``tau + d``, with ``J`` the first two columns of the inverse times ``V``, ``a = V' u_line``
and ``f = d / (1 + d g)``,

    fit         u - J (f a)
    covariance  P^{-1} - J diag(f) J'
    criterion   C + 1/2 sum(f a^2 + log(1 + d g)) - log((tau + d) / tau).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotri

from calspline.arrays import Array
from calspline.fitting.newton import Solution

if TYPE_CHECKING:
    from calspline.fitting.smoothing import Coordinates

SPREADS = 0.5 ** np.arange(8.0)
"""What the prior's usual standard deviation is multiplied by."""
FIXED_SPREAD = np.ones(1)
MIN_BEND, MAX_BEND = 0.3, 0.8
"""For the bands smoothings count whose curves bend with at least so many effective parameters, and at most this share
of all that there are."""


@dataclass(frozen=True)
class Average:
    """The mean of fits, their covariance about it, and what a single fit like it would have.

    ``smoothing`` is that of a fit which bends with as many degrees of freedom. ``criterion`` has, for each smoothing
    that was tried, the negative log marginal likelihood over all spreads of the line.
    """

    u: Array
    covariance: Array
    edf: float
    smoothing: float
    criterion: Array


def average(
    solutions: Sequence[Solution], scores: Array, grid: Array, coordinates: Coordinates, spreads: Array
) -> Average:
    """The average over fits at the smoothings of ``grid``, and from each of them over ``spreads`` of the line.

    ``scores`` are the criteria ``C`` of the solutions.
    """
    tau = float(coordinates.prior[0])
    d = tau * (spreads**-2.0 - 1.0)[:, None]
    u = np.array([solution.point.u for solution in solutions])
    inverse = _inverses([solution.factor for solution in solutions])
    g, V = np.linalg.eigh(inverse[:, :2, :2])
    J, a = inverse[:, :, :2] @ V, np.einsum("jml,jm->jl", V, u[:, :2])
    f = d / (1.0 + d * g[:, None])
    fits = u[:, None] - (f * a[:, None]) @ J.swapaxes(1, 2)
    C = scores[:, None] + 0.5 * (f * a[:, None] ** 2 + np.log1p(d * g[:, None])).sum(axis=2) + 2.0 * np.log(spreads)
    least = C.min(axis=1)
    criterion = least - np.log(np.exp(least[:, None] - C).mean(axis=1))
    W = np.exp(C.min() - C)
    W /= W.sum()
    K, rank = u.shape[1], u.shape[1] - 2
    mean = W.ravel() @ fits.reshape(-1, K)

    diagonal = np.einsum("jkk->jk", inverse)
    bend = rank - grid * (diagonal @ coordinates.strength)
    # The effective parameters are what the shares of the prior in the precision leave of all.
    line = ((tau + d) * (diagonal[:, None, :2] - f @ (J[:, :2] ** 2).swapaxes(1, 2))).sum(axis=2)
    curved = grid[:, None] * (
        (diagonal @ coordinates.strength)[:, None] - f @ (J**2).swapaxes(1, 2) @ coordinates.strength
    )
    edf = K - float((W * (line + curved)).sum())

    B = _band_weights(W, bend, rank, spreads)
    moved = (fits - mean).reshape(-1, K)
    covariance = (B.sum(axis=1) @ inverse.reshape(len(u), -1)).reshape(K, K) + (moved.T * B.ravel()) @ moved
    columns = J.swapaxes(0, 1).reshape(K, -1)
    covariance -= columns * np.einsum("js,jsm->jm", B, f).ravel() @ columns.T
    return Average(mean, covariance, edf, _equivalent(W.sum(axis=1), bend, grid), criterion)


def _band_weights(W: Array, bend: Array, rank: int, spreads: Array) -> Array:
    """Weights of the fits in the covariance.

    A mean does well to lean to what changes least, a band has to allow for the rest. So lines and nearly straight
    curves, of which any number could be added to the grid, have no say unless they are the most likely, spreads are
    weighed evenly themselves, not their logarithms, and evidence counts half: it takes the prior for true, of which it
    is sure that curves are as wiggly everywhere as on average.
    """
    usable = (bend >= MIN_BEND) & (bend <= MAX_BEND * rank)
    B = np.sqrt(W) * spreads * (usable | (W.sum(axis=1) == W.sum(axis=1).max()))[:, None]
    return np.asarray(B / B.sum())


def _inverses(factors: Sequence[Array]) -> Array:
    """The inverses of matrices with these lower Cholesky factors."""
    lower = np.array([dpotri(factor, lower=1)[0] for factor in factors])  # zeros above, as in the factors
    both = lower + lower.swapaxes(1, 2)
    np.einsum("jkk->jk", both)[:] *= 0.5
    return np.asarray(both)


def _equivalent(weight: Array, bend: Array, grid: Array) -> float:
    """The smoothing, between those of the sorted ``grid``, at which a curve bends as much as on average."""
    falling = np.maximum.accumulate(bend[::-1])
    return float(np.exp(np.interp(weight @ bend, falling, np.log(grid[::-1]))))
