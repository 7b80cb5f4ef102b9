"""Fit one shared curve, a matrix and intercepts to rows of log-scores.

For many classes the Hessian of curve and matrix is out of reach. Newton's method would need it, so intercepts and
matrix are then found by L-BFGS, in variables in which the Hessian is near the identity: ``B = (b, W)``, or intercepts
and the diagonal of ``W``, is a linear map of free variables ``t``, made from an approximate Hessian and the ridge.

With few rows a curve, a matrix and intercepts cost more than they gain where the scores are good already, however
they are shrunk. The cautious fit is temperature scaling with a temperature held near one: ``log beta`` has the prior
``N(0, 1 / STEADY)``. Coefficients are averaged, so that the result is one map. The fit that was learnt has the log-odds

    1/4 (gain - spent + evidence).

``gain`` is how much smaller its summed loss is, and ``spent`` how many effective parameters it has more: the
difference estimates what it gains on new rows, as Akaike's criterion does. ``evidence`` is the log marginal likelihood
of the temperature under its weak prior, less that under the cautious one: a temperature far from one is the surest
sign of scores that are off in other ways too. The quarter is there because such estimates are some three nats off.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline.arrays import Array, Workspace, added_up, blocks
from calspline.binary_fit import Recipe
from calspline.fitting.basis import anchors
from calspline.fitting.newton import Constraints, minimize
from calspline.fitting.smoothing import SMOOTHING_LIMITS
from calspline.multiclass.scale import (
    N_KNOTS,
    TEMPERATURE_PRIOR,
    Scale,
    fit_temperature,
    floored,
    softmax_loss,
    unmasked,
)
from calspline.multiclass.solver import (
    SCARCE,
    STRENGTH_TOLERANCE,
    CurveAndMatrix,
    CurveOnly,
    FitData,
    Solved,
    Strengths,
    matrix_groups,
    softmax,
    solve,
)
from calspline.multiclass.spread import DENSE_CLASSES
from calspline.multiclass.structured_map import StructuredMap
from calspline.scores import MatrixScores

JOINT_CLASSES = 32
JOINT_COST = 4e9
"""Curve and matrix are fitted jointly up to so many classes and multiplications per Hessian, ``n (m^2 / 2)^2``."""
MATRIX_COST = 5e8
"""Most multiplications per gradient, ``n m^2``, for which more than the diagonal of ``W`` is fitted."""
MIN_SLOPE = 1e-3
CONSTRAINED_TOLERANCE = 1e-6
"""The largest last move of a curve's coordinate under constraints."""
MANY_ROUNDS = 10
GRADIENT_TOLERANCE = 0.03
"""In variables whose Hessian is near the identity: what is left of the loss is some hundredths at most."""


STEADY = 50.0
TEMPER = 0.25
LEAST_INFORMATION = 1e-12
LEARNT_BAND = 0.5
"""Least weight of the fit that was learnt in limits: a mean does well to be cautious, limits to allow for the rest."""


def fit_structure(scores: MatrixScores, codes: NDArray[np.intp], weight: Array | None, recipe: Recipe) -> StructuredMap:
    """Fit one shared curve, a matrix and intercepts."""
    _check(recipe)
    values = unmasked(scores, weight).values
    if scores.kind == "probability":
        with np.errstate(divide="ignore"):
            z = np.log(values, dtype=np.float64, order="C")
    else:
        z = values.astype(np.float64, order="C")
    w = (np.ones(len(z)) if weight is None else weight) / recipe.design_effect
    strength = None if isinstance(recipe.smoothing, str) else float(np.clip(recipe.smoothing, *SMOOTHING_LIMITS))
    n_knots = N_KNOTS if recipe.n_knots is None else recipe.n_knots
    fit = fit_structured(z, codes, w, monotone=recipe.monotone is True, curve_strength=strength, n_knots=n_knots)
    return fit if fit.spread is None else replace(fit, spread=fit.spread.rounded())


def _check(recipe: Recipe) -> None:
    """Options that a structured fit could only ignore are errors."""
    for name, value, allowed in (
        ("transform", recipe.transform, ("auto", "identity")),
        ("penalty", recipe.penalty, ("curvature",)),
        ("loss", recipe.loss, ("log",)),
    ):
        if value not in allowed:
            shown = " or ".join(repr(choice) for choice in allowed)
            raise ValueError(
                f'{name} must be {shown} with multiclass="structured"; got {value!r}. Use multiclass="ovr".'
            )
    if isinstance(recipe.smoothing, str) and recipe.smoothing != "reml":
        raise ValueError(f'smoothing must be "reml" or a number with multiclass="structured"; got {recipe.smoothing!r}')
    if not isinstance(recipe.knots, str) or recipe.knots != "quantile":
        raise ValueError('knots must be "quantile" with multiclass="structured"')


def fit_structured(
    z: Array,
    y: NDArray[np.intp],
    w: Array,
    *,
    monotone: bool = False,
    curve_strength: float | None = None,
    n_knots: int = N_KNOTS,
) -> StructuredMap:
    """Fit to log-scores ``z`` (n, m): logarithms of probabilities (``-inf`` is allowed), or logits; overwritten.

    With ``monotone`` there is no matrix and the curve increases: every row keeps its ranking. Half of
    ``curve_strength`` times the integral of ``s''^2`` is the curve's penalty. None learns it, and averages the fit with
    a cautious one. The curve has about ``n_knots`` knots.
    """
    n, m = z.shape
    x, floor = floored(z, w)
    scale = Scale(floor, fit_temperature(x, y, w), 1.0 / (float(w.sum()) + SCARCE * m + 1.0))
    learns = curve_strength is None
    many = not monotone and (m > JOINT_CLASSES or n * (m * m / 2.0) ** 2 > JOINT_COST)
    steady = fit_temperature(x, y, w, STEADY) if learns and not many else scale.beta
    data = FitData.on_scale(scale, x, y, w, n_knots, free_slope=learns and not monotone)
    if many:
        # Not averaged: effective parameters are only known roughly, and so many strong ridges are caution enough.
        return fit_many(data, matrix=n * m * m <= MATRIX_COST, curve_strength=curve_strength)
    fit = _increasing(data, curve_strength) if monotone else fit_joint(data, curve_strength)
    return average_map(data, fit, steady / scale.beta) if learns else fit


def average_map(data: FitData, fit: StructuredMap, slope: float) -> StructuredMap:
    """The average of a fit and of the cautious one, which is ``s(u) = slope u``."""
    tempered = softmax_loss(data.u.__getitem__, data.y, data.w, data.u.shape[1])
    information = max(tempered(1.0)[2], LEAST_INFORMATION)
    gain = tempered(slope)[0] - data.loss(fit)
    share = learnt_share(gain, float(fit.effective.sum()), float(np.log(data.scale.beta)), information)
    return blend(fit, slope, share, 1.0 / np.sqrt(information + STEADY))


def learnt_share(gain: float, effective: float, t: float, information: float) -> float:
    """The weight of the fit that was learnt, whose loss is smaller by ``gain``.

    ``effective`` are its effective parameters beside the temperature. ``t`` is ``log beta``, fitted under its weak
    prior, and ``information`` the second derivative of its loss there.
    """
    weak, steady = (_temperature(t, information, prior) for prior in (TEMPERATURE_PRIOR, STEADY))
    return float(scipy.special.expit(TEMPER * (gain - effective - (weak[1] - steady[1]) + (weak[0] - steady[0]))))


def _temperature(t: float, information: float, prior: float) -> tuple[float, float]:
    """Log marginal likelihood of a temperature, but for a constant, and its effective parameters.

    ``prior`` is the precision of the prior on ``t``. Without one the estimate would be ``t (information + 1) /
    information``, which is normal with variance ``1 / information + 1 / prior``.
    """
    spent = information / (information + prior)
    precision = spent * prior
    estimate = t * (information + TEMPERATURE_PRIOR) / information
    return 0.5 * float(np.log(precision)) - 0.5 * precision * estimate**2, spent


def blend(fit: StructuredMap, slope: float, share: float, error: float = 0.0) -> StructuredMap:
    """``share`` of a fit, and for the rest ``s(u) = slope u``; ``error`` is the standard error of ``log slope``.

    The covariance is that of a mixture of the two about the average: within each, and between them.
    """
    spread = fit.spread
    if spread is not None:
        band = max(LEARNT_BAND, share)
        between = float(np.sqrt(band * (1.0 - share) ** 2 + (1.0 - band) * share**2))
        linear = None if fit.W is None else between * np.column_stack([fit.b, fit.W])
        spread = spread.scaled(band).with_mode(np.sqrt(1.0 - band) * error * slope * fit.breaks)
        spread = spread.with_mode(between * (fit.curve(fit.breaks) - slope * fit.breaks), linear)
    line = np.zeros_like(fit.coefficients)
    line[2], line[3] = slope, slope * anchors(fit.breaks)
    return replace(
        fit,
        coefficients=share * fit.coefficients + (1.0 - share) * line,
        W=None if fit.W is None else share * fit.W,
        b=share * fit.b,
        effective=share * fit.effective,
        spread=spread,
    )


def fit_joint(data: FitData, curve_strength: float | None = None) -> StructuredMap:
    """Curve and matrix in one convex problem with one Hessian."""
    problem = CurveAndMatrix(data)
    strengths = data.strengths(problem.group, curve_strength)
    solved = solve(problem, strengths, problem.start)
    v, b, W = problem.split(solved.theta)
    k = len(v)
    if len(b) <= DENSE_CLASSES:
        # Entries of a group are alike, and say together how large they are. A curve may bend in one place only.
        root = strengths.error_root(solved.root, [0, 1, 2])
        linear = {"linear": root[k:].T}
    else:
        # Of the curve given the matrix, and of the matrix given the curve.
        root = solved.root[:k, :k]
        B = solved.theta[k:].reshape(len(b), -1)
        linear = Linear(data, v, matrix=True).preconditioner(B, strengths)[0].posterior(strengths)
    curve = Solved(v, solved.converged, root)
    return data.fitted(curve, W.copy(), b.copy(), strengths.alpha, strengths.effective, **linear)


def _increasing(data: FitData, curve_strength: float | None) -> StructuredMap:
    """The curve alone, the best of those that increase."""
    basis, curve = data.cells.basis, CurveOnly(data)
    strengths = data.strengths(curve.group, curve_strength)
    solved = solve(curve, strengths, basis.straight)
    if basis.curve(solved.theta).smallest_slope <= MIN_SLOPE:
        # A spline increases if its B-spline coefficients do; those of the line with slope one are at ``greville``.
        rise = np.diff(basis.T, axis=0) / np.diff(basis.spline.greville[1:-1])[:, None]
        held = Constraints(rise, np.full(len(rise), 2.0 * MIN_SLOPE - basis.first_slope))
        straight = curve.at(basis.straight)
        best = minimize(curve, strengths.each, straight, tolerance=CONSTRAINED_TOLERANCE, constraints=held)
        solved = Solved(best.u, best.converged, best.covariance_root())
    alpha = np.append(np.full(3, np.inf), strengths.alpha[3])
    return data.fitted(solved, None, np.zeros(data.u.shape[1]), alpha, strengths.effective)


def fit_many(data: FitData, *, matrix: bool, curve_strength: float | None = None) -> StructuredMap:
    """For many classes: curve, then matrix, then the curve once more, each given the other.

    Without ``matrix`` only the diagonal of ``W`` is fitted. Large data are overwritten.
    """
    data = data.halved()
    bending = data.strengths(data.curve_group, curve_strength)
    v = solve(CurveOnly(data, exact=False), bending, data.cells.basis.straight).theta
    B, shrinking, near = Linear(data, v, matrix=matrix).fit()
    solved = solve(CurveOnly(data, B, exact=False), bending, v)
    W = B[:, 1:].copy() if matrix else B[:, 1].copy()
    alpha = np.append(shrinking.alpha[:3], bending.alpha[3:])
    effective = shrinking.effective + bending.effective
    return data.fitted(solved, W, B[:, 0].copy(), alpha, effective, **near.posterior(shrinking))


class Linear:
    """``b`` and ``W`` (or its diagonal) given the curve, by preconditioned L-BFGS.

    In ``B = (b, W)`` the gradient is ``sum w (p - e_y) x'``, ``x = (1, u)``. The Hessian
    ``sum w (diag p - p p') (x) x x'`` is replaced by the Kronecker product ``C (x) G / tr C`` of
    ``C = sum w (diag p - p p')`` and ``G = sum h x x'``, ``h`` being a row's ``w (1 - |p|^2)``, which has the same
    trace; for the diagonal alone by its own diagonal, ``sum w p_j (1 - p_j) (1, u_j^2)``.
    """

    def __init__(self, data: FitData, v: Array, *, matrix: bool) -> None:
        self.data, self.matrix, self.precision = data, matrix, data.precision
        m = data.u.shape[1]
        self.group = matrix_groups(m) if matrix else np.repeat([[0, 1]], m, axis=0)
        self._curve = data.predictor(self.precision, v)
        self._rows = list(blocks(*data.u.shape))
        self._workspace = Workspace(self._rows, m, *[self.precision] * 2)

    def local(self, B: Array, *, hessian: bool = False) -> list[Array]:
        """Summed loss and gradient; for the ``hessian`` also that of intercepts and diagonal, ``C`` and ``G``."""
        data, precision = self.data, self.precision
        b, W = precision(B[:, 0]), precision(B[:, 1:])

        def part(rows: slice) -> list[Array]:
            y, w = data.y[rows], precision(data.w[rows])
            u = data.u[rows].astype(precision, copy=False)
            with self._workspace.taken(rows) as (p, wp):
                np.matmul(u, W.T, out=p) if self.matrix else np.multiply(u, W[:, 0], out=p)
                p += b
                p += self._curve[rows]
                found = [np.asarray(softmax(p, y, data.w[rows]))]
                np.multiply(p, w[:, None], out=wp)
                if hessian:
                    own = (1.0 - p) * wp
                    found.append(np.column_stack([own.sum(axis=0), np.einsum("ij,ij->j", own, u * u)]))
                if hessian and self.matrix:
                    x = np.column_stack([np.ones_like(w), u])
                    left = w - np.einsum("ij,ij->i", wp, p)
                    found += [np.diag(wp.sum(axis=0)) - wp.T @ p, (x * left[:, None]).T @ x]
                wp[np.arange(len(y)), y] -= w
                slopes = wp.T @ u if self.matrix else np.einsum("ij,ij->j", wp, u)[:, None]
                found.insert(1, np.column_stack([np.ones_like(w) @ wp, slopes]))
            return [one.astype(np.float64) for one in found]

        return added_up(part, self._rows, data.u.size)

    def preconditioner(self, B: Array, strengths: Strengths) -> tuple[Kronecker | Diagonal, Array, Array]:
        """For the Hessian at ``B``; with it the loss and the gradient there."""
        f, g, *hessian = self.local(B, hessian=True)
        return (Kronecker if self.matrix else Diagonal)(strengths.alpha, *hessian), f, g

    def fit(self) -> tuple[Array, Strengths, Kronecker | Diagonal]:
        """Minimise, learning the strengths; and what the Hessian is near the minimum."""
        B, strengths = np.zeros(self.group.shape), self.data.strengths(self.group)
        for _ in range(MANY_ROUNDS):
            near, f, g = self.preconditioner(B, strengths)
            B = self._minimum(B, strengths.each, near, f, g)
            if strengths.update(B, near.inverse(strengths.each)) < STRENGTH_TOLERANCE:
                break
        return B, strengths, near

    def _minimum(self, B: Array, q: Array, near: Kronecker | Diagonal, f0: Array, g0: Array) -> Array:
        """The minimum for these strengths, from ``B``, where loss and gradient are known.

        L-BFGS tries a step of length one first: in units of the gradient's length, the preconditioned one.
        """
        unit = max(float(np.linalg.norm(near.back(g0 + q * B))), 1e-300) / near.shares

        def objective(t: Array) -> tuple[float, Array]:
            point = B + near.forth(unit * t)
            f, g = self.local(point) if t.any() else (f0, g0)
            return float(f + 0.5 * (q * point**2).sum()), unit * near.back(g + q * point)

        options = {"maxiter": 30, "ftol": 1e-7, "gtol": GRADIENT_TOLERANCE * unit}
        found = scipy.optimize.minimize(objective, np.zeros(near.size), jac=True, method="L-BFGS-B", options=options)
        return B + near.forth(unit * found.x)


class Diagonal:
    """``B = t / sqrt(h + q)``, with ``h`` the diagonal of the Hessian and ``q`` the ridge."""

    shares = 1

    def __init__(self, alpha: Array, h: Array) -> None:
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

    def posterior(self, strengths: Strengths) -> dict[str, Array]:
        """For a :class:`Spread`."""
        return {"own": strengths.error_variance(self.half**2, [0, 1])}


class Kronecker:
    """``B = U (T / sqrt(c g' / tr C + a)) V' + s / sqrt(h + q)``, for ``C = U c U'`` and ``G = V g V'``.

    ``a`` is the ridge of the rest of ``W``. The ridge ``q`` of intercepts and diagonal is weaker by far, which a
    Kronecker product cannot express. So they have a second share ``s``, with ``h`` their diagonal of the Hessian.
    """

    shares = 2

    def __init__(self, alpha: Array, h: Array, C: Array, G: Array) -> None:
        c, self.U = np.linalg.eigh(C)
        g, self.V = np.linalg.eigh(G)
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

    def posterior(self, strengths: Strengths) -> dict[str, Array]:
        """For a :class:`Spread`: what intercepts and diagonal have beyond the Kronecker product is their own."""
        U, V, S = self.U, self.V, strengths.error_variance(self.half**2, 2)
        common = U**2 @ S @ (V**2).T
        own = strengths.error_variance(self.own**2, [0, 1]) - np.column_stack([common[:, 0], common[:, 1:].diagonal()])
        return {"own": np.maximum(own, 0.0), "left": U, "right": V, "scale": S}
