"""Average a structured fit with a cautious one.

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
from scipy.special import expit

from calspline.fitting.basis import anchors
from calspline.multiclass.scale import TEMPERATURE_PRIOR, softmax_loss
from calspline.multiclass.solver import Data
from calspline.multiclass.structured_map import StructuredMap

STEADY = 50.0
TEMPER = 0.25
LEAST_INFORMATION = 1e-12
LEARNT_BAND = 0.5
"""Least weight of the fit that was learnt in limits: a mean does well to be cautious, limits to allow for the rest."""


def average(data: Data, fit: StructuredMap, slope: float) -> StructuredMap:
    """The average of a fit and of the cautious one, which is ``s(u) = slope u``."""
    tempered = softmax_loss(lambda rows: data.u[:, rows].T, data.y, data.w, len(data.u))
    information = max(tempered(1.0)[2], LEAST_INFORMATION)
    gain = tempered(slope)[0] - data.loss(fit)
    share = learnt_share(gain, float(fit.effective.sum()), float(np.log(data.scale.beta)), information)
    return blend(fit, slope, share, 1.0 / np.sqrt(information + STEADY))


def learnt_share(gain: float, effective: float, t: float, information: float) -> float:
    """The weight of the fit that was learnt.

    Parameters
    ----------
    gain, effective : float
        By how much its loss is smaller, and how many effective parameters it has beside the temperature.
    t, information : float
        ``log beta``, fitted under its weak prior, and the second derivative of its loss there.
    """
    evidence, spent = (
        one - other
        for one, other in zip(
            *(_temperature(t, information, prior) for prior in (TEMPERATURE_PRIOR, STEADY)), strict=True
        )
    )
    return float(expit(TEMPER * (gain - effective - spent + evidence)))


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
        between, B = float(np.sqrt(band * (1.0 - share) ** 2 + (1.0 - band) * share**2)), fit.b[:, None]
        B = B if fit.W is None else np.column_stack([B, fit.W if fit.W.ndim == 2 else np.diag(fit.W)])
        spread = spread.scaled(band).with_mode(np.sqrt(1.0 - band) * error * slope * fit.breaks)
        spread = spread.with_mode(
            between * (fit.curve(fit.breaks) - slope * fit.breaks), None if fit.W is None else between * B
        )
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
