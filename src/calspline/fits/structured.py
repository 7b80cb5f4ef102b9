"""Fit one shared curve, a matrix and intercepts to rows of log-scores.

For many classes the Hessian of curve and matrix is out of reach. Newton's method would
need it, so intercepts and matrix are then found by L-BFGS, in variables in which the
Hessian is near the identity: ``B = (b, W)``, or intercepts and the diagonal of ``W``,
is a linear map of free variables ``t``, made from an approximate Hessian and the ridge.

With few rows a curve, a matrix and intercepts cost more than they gain where a
temperature is all that the scores need, however they are shrunk. So the fit is averaged
with a temperature. Coefficients are averaged, so that the result is one map. The fit
has the log-odds

    1/4 (gain - effective + evidence).

``gain`` is how much smaller its summed loss is than that of the temperature, and
``effective`` how many parameters it has more: the difference estimates what it gains on
new rows, as Akaike's criterion does. The quarter is there because such estimates are
some four nats off.

Logits come without a temperature, and there is no ``evidence``. Probabilities claim
that theirs is one. The temperature is then the average of one that is fitted and of a
cautious one, for which ``log beta`` has the prior ``N(0, 1 / STEADY)``. ``evidence`` is
the log marginal likelihood of the first less that of the second. A temperature far from
one is a sign of scores that are off in other ways too, but no proof: ``evidence``
counts up to a limit, which is lower for a fit with many parameters, as that has more to
lose.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array, Workspace, added_up, blocks
from calspline._input.scores import MatrixScores
from calspline.fits.options import Recipe
from calspline.fitting.basis import anchors
from calspline.fitting.newton import Constraints, minimize
from calspline.fitting.smoothing import SMOOTHING_LIMITS
from calspline.fitting.validation import is_worse_than_start
from calspline.maps.structured import StructuredMap
from calspline.multiclass.scale import (
    N_KNOTS,
    TEMPERATURE_PRIOR,
    Scale,
    TemperatureFit,
    fit_logit_unit,
    fit_temperature,
    floor_log_softmax,
    floored_logits,
    softmax_loss,
    unmask,
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
from calspline.multiclass.spread import DENSE_CLASSES, Spread

STEADY = 50.0
LEAST_INFORMATION = 1e-12
LEAST_DOUBT = 0.1
"""Least deviations from a temperature that limits allow for."""


def fit_structure(
    scores: MatrixScores, codes: NDArray[np.intp], weight: Array | None, recipe: Recipe
) -> StructuredMap:
    """Fit one shared curve, a matrix and intercepts."""
    _check(recipe)
    values = unmask(scores, weight).values
    if scores.kind == "probability":
        with np.errstate(divide="ignore"):
            z = np.log(values, dtype=np.float64, order="C")
    else:
        z = values.astype(np.float64, order="C")
    w = (np.ones(len(z)) if weight is None else weight) / recipe.design_effect
    if isinstance(recipe.smoothing, str):
        strength = None
    else:
        strength = float(np.clip(recipe.smoothing, *SMOOTHING_LIMITS))
    n_knots = N_KNOTS if recipe.n_knots is None else recipe.n_knots
    fit = fit_structured(
        z,
        codes,
        w,
        logits=scores.kind == "margin",
        monotone=recipe.monotone is True,
        curve_strength=strength,
        n_knots=n_knots,
    )
    return fit if fit.spread is None else replace(fit, spread=fit.spread.rounded())


def _check(recipe: Recipe) -> None:
    """Options that a structured fit could only ignore are errors."""
    for name, value, allowed in (
        ("scale", recipe.scale, ("auto", "identity")),
        ("penalty", recipe.penalty, ("curvature",)),
        ("loss", recipe.loss, ("log",)),
    ):
        if value not in allowed:
            shown = " or ".join(repr(choice) for choice in allowed)
            raise ValueError(
                f'{name} must be {shown} with multiclass="structured"; got {value!r}. '
                'Use multiclass="ovr".'
            )
    if isinstance(recipe.smoothing, str) and recipe.smoothing != "reml":
        raise ValueError(
            'smoothing must be "reml" or a number with multiclass="structured"; '
            f"got {recipe.smoothing!r}"
        )
    if recipe.knots != "quantile":
        raise ValueError('knots must be "quantile" with multiclass="structured"')


JOINT_CLASSES = 32
JOINT_COST = 4e9
"""Most classes, and multiplications per Hessian, of a joint fit: ``n (m^2 / 2)^2``."""
MATRIX_COST = 5e8
"""Multiplications per gradient, ``n m^2``, up to which all of ``W`` is fitted."""


def fit_structured(
    z: Array,
    y: NDArray[np.intp],
    w: Array,
    *,
    logits: bool = False,
    monotone: bool = False,
    curve_strength: float | None = None,
    n_knots: int = N_KNOTS,
) -> StructuredMap:
    """Fit to log-scores ``z`` (n, m), which are overwritten.

    They are logarithms of probabilities (``-inf`` is allowed), or ``logits``.

    With ``monotone`` there is no matrix and the curve increases: every row keeps its
    ranking. Half of ``curve_strength`` times the integral of ``s''^2`` is the curve's
    penalty. None learns it, and averages the fit with a cautious one. The curve has
    about ``n_knots`` knots.
    """
    n, m = z.shape
    uniform = 1.0 / (float(w.sum()) + SCARCE * m + 1.0)
    if logits:
        z -= z.max(axis=1, keepdims=True)
        temperature = fit_logit_unit(z, y, w)
        x, floor = floored_logits(z, temperature.beta, w)
        cautious = temperature
        scale = Scale(floor, 1.0, uniform, temperature.beta)
    else:
        x, floor = floor_log_softmax(z, w)
        temperature = fit_temperature(x, y, w)
        cautious = fit_temperature(x, y, w, STEADY, start=temperature.beta)
        scale = Scale(floor, temperature.beta, uniform)
    learns = curve_strength is None
    data = FitData.on_scale(scale, x, y, w, n_knots, free_slope=learns and not monotone)
    if logits:
        line = logit_line(temperature)
    else:
        line = average_line(data, temperature, cautious.beta)
    if monotone:
        fitted = fit_increasing(data, curve_strength)
    elif m > JOINT_CLASSES or n * (m * m / 2.0) ** 2 > JOINT_COST:
        fitted = fit_many(
            data, matrix=n * m * m <= MATRIX_COST, curve_strength=curve_strength
        )
    else:
        fitted = fit_joint(data, curve_strength)
    if fitted.is_worse:
        return temperature_map(data, line)
    return average_map(fitted, line) if learns else fitted.map


LOSS_ROUNDING = 1e-5
"""Relative rounding error of a summed loss in single precision."""


class StructuredFit(NamedTuple):
    """A map, its summed loss, and that of a temperature with what its prior takes."""

    map: StructuredMap
    loss: float
    temperature_loss: float
    temperature_penalty: float

    @property
    def gain(self) -> float:
        """How much smaller the loss is than that of the temperature."""
        return self.temperature_loss - self.loss

    @property
    def is_worse(self) -> bool:
        """Whether the fit is worse on its own rows than the initial temperature."""
        rounding = LOSS_ROUNDING * (1.0 + abs(self.temperature_loss))
        tolerance = self.temperature_penalty + rounding
        return is_worse_than_start(self.loss, self.temperature_loss, tolerance)


class TemperatureLine(NamedTuple):
    """A temperature as a line ``s(u) = slope u``.

    ``error`` is the standard error of ``log slope``. ``evidence`` and
    ``cautious_loss``, the loss of the cautious temperature, tell how far the scores are
    off; logits have no cautious one.
    """

    slope: float
    error: float
    evidence: float = 0.0
    cautious_loss: float | None = None

    def evidence_against(self, loss: float) -> float:
        """What the temperature, whose loss is given, speaks for a fit."""
        if self.cautious_loss is None:
            return 0.0
        return self.evidence + self.cautious_loss - loss


def logit_line(temperature: TemperatureFit) -> TemperatureLine:
    """The temperature of logits, which are in its unit already."""
    return TemperatureLine(
        1.0, float(1.0 / np.sqrt(temperature.information + TEMPERATURE_PRIOR))
    )


EVIDENCE_TEMPER, EVIDENCE_NEEDED = 0.5, 1.0
"""A fitted temperature against a cautious one has the log-odds
``EVIDENCE_TEMPER (evidence - EVIDENCE_NEEDED)``."""


def average_line(
    data: FitData, temperature: TemperatureFit, cautious: float
) -> TemperatureLine:
    """The average of a temperature of probabilities and of the cautious one.

    Without a prior ``log beta`` would be ``t (information + 1) / information``. Under a
    prior it is normal about zero, with variance ``1 / information + 1 / precision``.
    """
    information = max(temperature.information, LEAST_INFORMATION)
    estimate = (
        float(np.log(temperature.beta))
        * (information + TEMPERATURE_PRIOR)
        / information
    )
    weak = _log_evidence(estimate, information, TEMPERATURE_PRIOR)
    steady = _log_evidence(estimate, information, STEADY)
    evidence = weak - steady
    share = float(scipy.special.expit(EVIDENCE_TEMPER * (evidence - EVIDENCE_NEEDED)))
    cautious_slope = cautious / temperature.beta
    slope = share + (1.0 - share) * cautious_slope
    precision = share * TEMPERATURE_PRIOR + (1.0 - share) * STEADY
    tempered = softmax_loss(data.u.__getitem__, data.y, data.w, data.u.shape[1])
    # The share of a parameter that it has more than the cautious one.
    spent = information / (information + TEMPERATURE_PRIOR) - information / (
        information + STEADY
    )
    error = float(1.0 / np.sqrt(information + precision))
    return TemperatureLine(slope, error, evidence - spent, tempered(cautious_slope)[0])


def _log_evidence(estimate: float, information: float, prior: float) -> float:
    """Log marginal likelihood of a temperature under a prior of this precision.

    It is known up to a constant.
    """
    precision = information * prior / (information + prior)
    return 0.5 * float(np.log(precision)) - 0.5 * precision * estimate**2


def average_map(fitted: StructuredFit, line: TemperatureLine) -> StructuredMap:
    """The average of a fit and of a temperature."""
    effective = float(fitted.map.effective.sum())
    evidence = line.evidence_against(fitted.temperature_loss)
    share = learnt_share(fitted.gain, effective, evidence)
    doubt = remaining_doubt(fitted.gain, effective)
    return blend(fitted.map, line.slope, share, line.error, doubt)


TEMPER = 0.25
MOST_EVIDENCE, MOST_EVIDENCE_OF_ALL = 6.0, 40.0
"""Nats by which a temperature may favor a fit, alone and per effective parameter."""


def learnt_share(gain: float, effective: float, evidence: float) -> float:
    """The weight of a fit against a temperature.

    Its loss is smaller by ``gain``, with ``effective`` more parameters.
    """
    most = min(MOST_EVIDENCE, MOST_EVIDENCE_OF_ALL / max(effective, 1.0))
    return float(scipy.special.expit(TEMPER * (gain - effective + min(evidence, most))))


NOISE_GAIN = 0.5
"""Nats that a fit gains per effective parameter where a temperature is the truth.

It is half the mean of a chi-squared variable with one degree of freedom.
"""


def remaining_doubt(gain: float, effective: float) -> float:
    """How large deviations from a temperature may be, in units of their variance.

    Of noise alone the gain is about ``NOISE_GAIN`` for each parameter, and of
    deviations with a variance ``r`` times that of the noise, ``1 + r`` times as much.
    """
    excess = gain / (NOISE_GAIN * max(effective, LEAST_INFORMATION)) - 1.0
    return float(np.clip(excess, LEAST_DOUBT, 1.0))


def _fitted_map(
    data: FitData,
    curve: Solved,
    W: Array | None,
    b: Array,
    strengths: Array,
    effective: Array,
    **linear: Array,
) -> StructuredMap:
    """The map with these coordinates of the curve, matrix and intercepts.

    ``linear`` is the posterior of the latter two. The rows of the curve's root may go
    on: with what its errors add to intercepts and matrix.
    """
    basis = data.cells.basis
    pieces = basis.curve(curve.theta)
    modes = (basis.at(pieces.breaks) @ curve.root[: basis.size]).T
    return StructuredMap(
        data.scale,
        pieces.breaks,
        pieces.coefficients,
        W,
        b,
        strengths[:4],
        effective[:4],
        curve.converged,
        Spread(modes, **linear),
    )


def temperature_map(data: FitData, line: TemperatureLine) -> StructuredMap:
    """The temperature alone, in place of a fit that went wrong."""
    breaks = data.cells.basis.spline.knots
    coefficients = np.zeros((4, len(breaks) + 1))
    coefficients[2] = line.slope
    coefficients[3] = line.slope * anchors(breaks)
    spread = Spread(line.error * line.slope * breaks[None, :])
    b = np.zeros(data.u.shape[1])
    unused = np.full(4, np.inf)
    return StructuredMap(
        data.scale, breaks, coefficients, None, b, unused, np.zeros(4), False, spread
    )


def blend(
    fit: StructuredMap,
    slope: float,
    share: float,
    error: float = 0.0,
    doubt: float = LEAST_DOUBT,
) -> StructuredMap:
    """``share`` of a fit, and for the rest ``s(u) = slope u``.

    ``error`` is the standard error of ``log slope``, and ``doubt`` the variance of
    deviations from the line that the average leaves out, as a multiple of the fit's.
    Limits allow for the error of either, for what is left out, and for how far the two
    are apart.
    """
    spread = fit.spread
    if spread is not None:
        spread = spread.scaled(share**2 + (1.0 - share) ** 2 * doubt)
        spread = spread.with_mode(np.sqrt(1.0 - share**2) * error * slope * fit.breaks)
        apart = float(np.sqrt(share * (1.0 - share)))
        bend = apart * (fit.curve(fit.breaks) - slope * fit.breaks)
        if fit.W is None:
            spread = spread.with_mode(bend)
        elif fit.W.ndim == 1:
            spread = spread.with_mode(bend).with_own(
                apart * np.column_stack([fit.b, fit.W])
            )
        else:
            spread = spread.with_mode(bend, apart * np.column_stack([fit.b, fit.W]))
    line = np.zeros_like(fit.coefficients)
    line[2] = slope
    line[3] = slope * anchors(fit.breaks)
    return replace(
        fit,
        coefficients=share * fit.coefficients + (1.0 - share) * line,
        W=None if fit.W is None else share * fit.W,
        b=share * fit.b,
        effective=share * fit.effective,
        spread=spread,
    )


def fit_joint(data: FitData, curve_strength: float | None = None) -> StructuredFit:
    """Curve and matrix in one convex problem with one Hessian."""
    problem = CurveAndMatrix(data)
    strengths = data.strengths(problem.group, curve_strength)
    solved = solve(problem, strengths, problem.start)
    v, b, W = problem.split(solved.theta)
    k = len(v)
    if len(b) <= DENSE_CLASSES:
        # Entries of a group are alike, and say together how large they are. A curve may
        # bend in one place only.
        root = strengths.error_root(solved.root, [0, 1, 2])
        linear = {"linear": root[k:].T}
    else:
        # Of the curve given the matrix, and of the matrix given the curve.
        root = solved.root[:k, :k]
        B = solved.theta[k:].reshape(len(b), -1)
        linear = (
            Linear(data, v, matrix=True)
            .preconditioner(B, strengths)[0]
            .posterior(strengths)
        )
    curve = solved._replace(theta=v, root=root)
    found = _fitted_map(
        data, curve, W.copy(), b.copy(), strengths.alpha, strengths.effective, **linear
    )
    return StructuredFit(found, solved.loss, solved.start_loss, data.start_penalty())


MIN_SLOPE = 1e-3
CONSTRAINED_TOLERANCE = 1e-6
"""The largest last move of a curve's coordinate under constraints."""


def fit_increasing(data: FitData, curve_strength: float | None) -> StructuredFit:
    """The curve alone, the best of those that increase."""
    basis = data.cells.basis
    curve = CurveOnly(data)
    strengths = data.strengths(curve.group, curve_strength)
    solved = solve(curve, strengths, basis.straight)
    if basis.curve(solved.theta).smallest_slope <= MIN_SLOPE:
        # A spline increases if its B-spline coefficients do; those of the line with
        # slope one are at ``greville``.
        rise = np.diff(basis.T, axis=0) / np.diff(basis.spline.greville[1:-1])[:, None]
        held = Constraints(
            rise, np.full(len(rise), 2.0 * MIN_SLOPE - basis.first_slope)
        )
        straight = curve.at(basis.straight)
        best = minimize(
            curve,
            strengths.each,
            straight,
            tolerance=CONSTRAINED_TOLERANCE,
            constraints=held,
        )
        loss = best.objective - 0.5 * float(strengths.each @ (best.u * best.u))
        solved = Solved(
            best.u, best.converged, best.covariance_root(), straight.local.value, loss
        )
    alpha = np.append(np.full(3, np.inf), strengths.alpha[3])
    found = _fitted_map(
        data, solved, None, np.zeros(data.u.shape[1]), alpha, strengths.effective
    )
    return StructuredFit(found, solved.loss, solved.start_loss, data.start_penalty())


def fit_many(
    data: FitData, *, matrix: bool, curve_strength: float | None = None
) -> StructuredFit:
    """For many classes: curve, then matrix, then the curve, each given the other.

    Without ``matrix`` only the diagonal of ``W`` is fitted. Large data are overwritten.
    """
    data = data.halved()
    bending = data.strengths(data.curve_group, curve_strength)
    bent = solve(CurveOnly(data, exact=False), bending, data.cells.basis.straight)
    B, shrinking, near, converged = Linear(data, bent.theta, matrix=matrix).fit()
    solved = solve(CurveOnly(data, B, exact=False), bending, bent.theta)
    solved = solved._replace(converged=solved.converged and converged)
    W = B[:, 1:].copy() if matrix else B[:, 1].copy()
    alpha = np.append(shrinking.alpha[:3], bending.alpha[3:])
    effective = shrinking.effective + bending.effective
    found = _fitted_map(
        data, solved, W, B[:, 0].copy(), alpha, effective, **near.posterior(shrinking)
    )
    return StructuredFit(found, solved.loss, bent.start_loss, data.start_penalty())


MANY_SOLVED = 1.0
"""The decrement up to which intercepts and matrix of many classes are solved.

It is twice what is left of the loss.
"""
MANY_ROUNDS = 10
GRADIENT_TOLERANCE = 0.03
"""In variables whose Hessian is near the identity.

Some hundredths at most are left of the loss.
"""


class Linear:
    """``b`` and ``W`` (or its diagonal) given the curve, by preconditioned L-BFGS.

    In ``B = (b, W)`` the gradient is ``sum w (p - e_y) x'``, ``x = (1, u)``. The
    Hessian ``sum w (diag p - p p') (x) x x'`` is replaced by the Kronecker product ``C
    (x) G / tr C`` of ``C = sum w (diag p - p p')`` and ``G = sum h x x'``, ``h`` being
    a row's ``w (1 - |p|^2)``, which has the same trace; for the diagonal alone by its
    own diagonal, ``sum w p_j (1 - p_j) (1, u_j^2)``.
    """

    def __init__(self, data: FitData, v: Array, *, matrix: bool) -> None:
        self.data = data
        self.matrix = matrix
        self.precision = data.precision
        m = data.u.shape[1]
        self.group = matrix_groups(m) if matrix else np.repeat([[0, 1]], m, axis=0)
        self._curve = data.predictor(self.precision, v)
        self._rows = list(blocks(*data.u.shape))
        self._workspace = Workspace(self._rows, m, *[self.precision] * 2)

    def local(self, B: Array, *, hessian: bool = False) -> list[Array]:
        """Summed loss and gradient; for the ``hessian`` also its parts.

        These are that of intercepts and diagonal, ``C`` and ``G``.
        """
        data = self.data
        precision = self.precision
        b = precision(B[:, 0])
        W = precision(B[:, 1:])

        def part(rows: slice) -> list[Array]:
            y = data.y[rows]
            w = precision(data.w[rows])
            u = data.u[rows].astype(precision, copy=False)
            p, wp = self._workspace.views(rows)
            np.matmul(u, W.T, out=p) if self.matrix else np.multiply(u, W[:, 0], out=p)
            p += b
            p += self._curve[rows]
            found = [np.asarray(softmax(p, y, data.w[rows]))]
            np.multiply(p, w[:, None], out=wp)
            if hessian:
                own = (1.0 - p) * wp
                found.append(
                    np.column_stack(
                        [own.sum(axis=0), np.einsum("ij,ij->j", own, u * u)]
                    )
                )
            if hessian and self.matrix:
                x = np.column_stack([np.ones_like(w), u])
                left = w - np.einsum("ij,ij->i", wp, p)
                found += [np.diag(wp.sum(axis=0)) - wp.T @ p, (x * left[:, None]).T @ x]
            wp[np.arange(len(y)), y] -= w
            slopes = wp.T @ u if self.matrix else np.einsum("ij,ij->j", wp, u)[:, None]
            found.insert(1, np.column_stack([np.ones_like(w) @ wp, slopes]))
            return [one.astype(np.float64) for one in found]

        return added_up(part, self._rows)

    def preconditioner(
        self, B: Array, strengths: Strengths
    ) -> tuple[Kronecker | Diagonal, Array, Array]:
        """For the Hessian at ``B``; with it the loss and the gradient there."""
        f, g, *hessian = self.local(B, hessian=True)
        return (Kronecker if self.matrix else Diagonal)(strengths.alpha, *hessian), f, g

    def fit(self) -> tuple[Array, Strengths, Kronecker | Diagonal, bool]:
        """Minimize, learning the strengths.

        Returns the Hessian near the minimum, and whether the gradient vanishes.
        """
        B = np.zeros(self.group.shape)
        strengths = self.data.strengths(self.group)
        for _ in range(MANY_ROUNDS):
            near, f, g = self.preconditioner(B, strengths)
            B, decrement = self._minimum(B, strengths.each, near, f, g)
            if strengths.update(B, near.inverse(strengths.each)) < STRENGTH_TOLERANCE:
                break
        return B, strengths, near, decrement <= MANY_SOLVED

    def _minimum(
        self, B: Array, q: Array, near: Kronecker | Diagonal, f0: Array, g0: Array
    ) -> tuple[Array, float]:
        """The minimum for these strengths, and the decrement there.

        The search begins at ``B``, where loss and gradient are known.

        L-BFGS tries a step of length one first: in units of the gradient's length, the
        preconditioned one.
        """
        unit = max(float(np.linalg.norm(near.back(g0 + q * B))), 1e-300) / near.shares

        def objective(t: Array) -> tuple[float, Array]:
            point = B + near.forth(unit * t)
            f, g = self.local(point) if t.any() else (f0, g0)
            return float(f + 0.5 * (q * point**2).sum()), unit * near.back(
                g + q * point
            )

        options = {"maxiter": 30, "ftol": 1e-7, "gtol": GRADIENT_TOLERANCE * unit}
        found = scipy.optimize.minimize(
            objective, np.zeros(near.size), jac=True, method="L-BFGS-B", options=options
        )
        left = found.jac / unit
        return B + near.forth(unit * found.x), float(left @ left)


class Diagonal:
    """``B = t / sqrt(h + q)``; ``h`` is the Hessian's diagonal and ``q`` the ridge."""

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
    """``B = U (T / sqrt(c g' / tr C + a)) V' + s / sqrt(h + q)``.

    Here ``C = U c U'`` and ``G = V g V'``.

    ``a`` is the ridge of the rest of ``W``. The ridge ``q`` of intercepts and diagonal
    is weaker by far, which a Kronecker product cannot express. So they have a second
    share ``s``, with ``h`` their diagonal of the Hessian.
    """

    shares = 2

    def __init__(self, alpha: Array, h: Array, C: Array, G: Array) -> None:
        c, self.U = np.linalg.eigh(C)
        g, self.V = np.linalg.eigh(G)
        values = np.outer(np.maximum(c, 0.0), np.maximum(g, 0.0)) / max(
            float(np.trace(C)), 1e-300
        )
        self.ridge = float(alpha[2])
        self.half = 1.0 / np.sqrt(values + self.ridge)
        self.h = h
        self.own = 1.0 / np.sqrt(h + alpha[:2])
        self.size = values.size + h.size

    def forth(self, t: Array) -> Array:
        """``B`` of the free variables."""
        m = len(self.half)
        k = self.half.size
        B = self.U @ (t[:k].reshape(m, m + 1) * self.half) @ self.V.T
        s = t[k:].reshape(m, 2) * self.own
        B[:, 0] += s[:, 0]
        B[np.arange(m), np.arange(m) + 1] += s[:, 1]
        return np.asarray(B)

    def back(self, g: Array) -> Array:
        """The gradient in the free variables."""
        own = np.column_stack([g[:, 0], g[:, 1:].diagonal()]) * self.own
        return np.concatenate(
            [(self.U.T @ g @ self.V * self.half).ravel(), own.ravel()]
        )

    def inverse(self, q: Array) -> Array:
        """Diagonal of the inverse Hessian with the own ridge ``q`` of each variable.

        Rows that say much of a class have a large ``u`` of it, which is near zero. So
        the product overrates what they say of the diagonal; it is no more than the
        diagonal of the Hessian.
        """
        m = len(self.U)
        inverse = self.U**2 @ self.half**2 @ (self.V**2).T
        h = 1.0 / inverse - self.ridge
        h[:, 0] = np.minimum(h[:, 0], self.h[:, 0])
        entries = np.arange(m), np.arange(m) + 1
        h[entries] = np.minimum(h[entries], self.h[:, 1])
        return np.asarray(1.0 / (h + q))

    def posterior(self, strengths: Strengths) -> dict[str, Array]:
        """For a :class:`Spread`.

        What intercepts and diagonal have beyond the Kronecker product is their own.
        """
        U = self.U
        V = self.V
        S = strengths.error_variance(self.half**2, 2)
        common = U**2 @ S @ (V**2).T
        own = strengths.error_variance(self.own**2, [0, 1]) - np.column_stack(
            [common[:, 0], common[:, 1:].diagonal()]
        )
        return {"own": np.maximum(own, 0.0), "left": U, "right": V, "scale": S}
