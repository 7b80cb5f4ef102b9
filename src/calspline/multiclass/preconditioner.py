"""Variables in which the Hessian of intercepts and matrix is near the identity.

``B = (b, W)``, or intercepts and the diagonal of ``W``, is a linear map of free variables ``t``, made from an
approximate Hessian and the ridge. L-BFGS runs in ``t``, where its steps fit.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from calspline.arrays import Array


class Diagonal:
    """``B = t / sqrt(h + q)``, with ``h`` the diagonal of the Hessian and ``q`` the ridge."""

    shares = 1

    def __init__(self, h: Array, alpha: Array) -> None:
        self.half = 1.0 / np.sqrt(h + alpha[:2])
        self.size = h.size

    def forth(self, t: Array) -> Array:
        """``B`` of the free variables."""
        return t.reshape(self.half.shape) * self.half

    def back(self, g: Array) -> Array:
        """The gradient in the free variables."""
        return (g * self.half).ravel()

    def inverse(self, q: Array) -> Array:
        """Diagonal of the inverse Hessian with ridge ``q``."""
        return self.half**2


class Kronecker:
    """``B = U (T / sqrt(c g' / tr C + a)) V' + s / sqrt(h + q)``, for ``C = U c U'`` and ``G = V g V'``.

    ``a`` is the ridge of the rest of ``W``. The ridge ``q`` of intercepts and diagonal is weaker by far, which a
    Kronecker product cannot express. So they have a second share ``s``, with ``h`` their diagonal of the Hessian.
    """

    shares = 2

    def __init__(self, h: Array, C: Array, G: Array, alpha: Array) -> None:
        c, self.U = linalg.eigh(C)
        g, self.V = linalg.eigh(G)
        values = np.outer(np.maximum(c, 0.0), np.maximum(g, 0.0)) / max(float(np.trace(C)), 1e-300)
        self.ridge = float(alpha[2])
        self.half = 1.0 / np.sqrt(values + self.ridge)
        self.own = 1.0 / np.sqrt(h + alpha[:2])
        self.size = values.size + h.size

    def forth(self, t: Array) -> Array:
        """``B`` of the free variables."""
        m, k = len(self.half), self.half.size
        B = self.U @ (t[:k].reshape(m, m + 1) * self.half) @ self.V.T
        s = t[k:].reshape(m, 2) * self.own
        B[:, 0] += s[:, 0]
        B[np.arange(m), np.arange(m) + 1] += s[:, 1]
        return np.asarray(B)

    def back(self, g: Array) -> Array:
        """The gradient in the free variables."""
        own = np.column_stack([g[:, 0], g[:, 1:].diagonal()]) * self.own
        return np.concatenate([(self.U.T @ g @ self.V * self.half).ravel(), own.ravel()])

    def inverse(self, q: Array) -> Array:
        """Diagonal of the inverse Hessian with ridge ``q``, each variable's own instead of the common one."""
        inverse = self.U**2 @ self.half**2 @ (self.V**2).T
        return np.asarray(1.0 / (1.0 / inverse - self.ridge + q))
