"""How sure a curve is, when its smoothness was itself learnt from the data.

At a fixed smoothing the coefficients have the posterior covariance ``(H + Q)^{-1}``, with ``H`` the data's
information. Taking the chosen smoothing for certain makes bands too narrow where a bend was taken for chance. So the
covariance is averaged over smoothings, each with the weight that the marginal likelihood gives it (Kass and Steffey,
*Approximate Bayesian inference in conditionally independent hierarchical models*, JASA 84, 1989).

With ``R R' = (H + Q)^{-1}``, and ``R' (lambda S) R`` diagonalised to shares ``s`` in [0, 1], a smoothing ``r`` times
the chosen one has, to second order about the fit ``a``,

    precision  d = 1 - s + r s,    fit  a / d,
    criterion  1/2 sum(log d - a^2 / d) - rank/2 log r,

so that all smoothings cost one small eigenvalue problem.
"""

from __future__ import annotations

import numpy as np

from calspline.arrays import Array

LOG_RATIOS = np.arange(-25.0, 25.1, 0.25)
MIN_BEND, MAX_BEND = 0.02, 0.8
"""Smoothings count whose curvature has at least so many effective parameters, and at most this share of all: beyond,
they are all alike."""


def averaged_root(root: Array, u: Array, penalty: Array, scale: float) -> Array:
    """``R`` with ``R R'`` the covariance about the fit, averaged over smoothings.

    Parameters
    ----------
    root : array of shape (K, K)
        ``R R' = (H + Q)^{-1}`` at the chosen smoothing.
    u : array of shape (K,)
        The fit there.
    penalty : array of shape (K,)
        The part of the diagonal ``Q`` that the smoothing multiplies.
    scale : float
        Of the loss: the log-likelihood is the loss over it.
    """
    rank = int(np.count_nonzero(penalty))
    shares, vectors = np.linalg.eigh(root.T @ (penalty[:, None] * root))
    s = np.clip(shares, 0.0, 1.0)
    basis = root @ vectors
    a = vectors.T @ np.linalg.solve(root, u)
    d = 1.0 - s + np.exp(LOG_RATIOS)[:, None] * s
    bend = ((1.0 - s) / d).sum(axis=1) - (len(s) - rank)
    usable = (bend >= MIN_BEND) & (bend <= MAX_BEND * rank) | (LOG_RATIOS == 0.0)
    d = d[usable]
    criterion = 0.5 * (np.log(d) - a**2 / (scale * d)).sum(axis=1) - 0.5 * rank * LOG_RATIOS[usable]
    weight = np.exp(criterion.min() - criterion)
    weight /= weight.sum()
    moved = a / d - a
    spread = np.diag(scale * (weight @ (1.0 / d))) + (moved.T * weight) @ moved
    return np.asarray(basis @ np.linalg.cholesky(spread))
