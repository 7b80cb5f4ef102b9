"""Baselines: sigmoid, isotonic, beta, temperature and clipping."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from calspline._domains import Choice, Domain, Either
from calspline._input.scores import Requirement
from calspline.calibrators.base import BaseCalibrator
from calspline.fits.baselines import (
    Rows,
    fit_beta,
    fit_clipping,
    fit_isotonic,
    fit_sigmoid,
    fit_temperature,
)
from calspline.maps.curve import CalibrationCurve
from calspline.maps.model import Model
from calspline.maps.parametric import (
    FLOOR,
    BetaMap,
    Clipping,
    ConstantRates,
    Temperature,
)


class SigmoidCalibrator(BaseCalibrator):
    r"""Calibrate scores with a sigmoid: Platt's method.

    The calibrated probability is

    .. math:: P = \frac{1}{1 + \exp(-(a x + b))}

    where ``x`` is the log-odds of the score if it is a probability (clipped to
    [1e-9, 1 - 1e-9]), or the score itself if it is a margin. ``a`` and ``b`` maximise
    the likelihood of Platt's smoothed targets: with :math:`n_1` positives and
    :math:`n_0` negatives, the target is :math:`(n_1 + 1) / (n_1 + 2)` for a positive
    and :math:`1 / (n_0 + 2)` for a negative row, so the fit is finite even if the
    scores separate the classes.

    On log-odds, ``a = 1`` and ``b = 0`` give the identity, so calibrated scores can be
    left unchanged. No sigmoid of the probability itself can do that.

    For three or more classes, one sigmoid is fitted per class against the rest, and the
    results are normalized. Margins are used separately for each class; for logits of a
    neural network, pass their softmax instead. A class without rows gets
    ``1 / (n + 2)`` before normalization.

    Parameters
    ----------
    on : {"log_odds", "probability"}, default="log_odds"
        Which ``x`` to use for probabilities. ``"probability"`` is the score itself, as
        in scikit-learn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    a_, b_ : float, or ndarray of shape (n_classes,)
        Slope and intercept of the log-odds as a function of ``x``; arrays for three or
        more classes. The slope is positive if larger scores mean larger probabilities.
        (Platt and scikit-learn use the opposite sign for both.)
    curves_ : list of CalibrationCurve
        One curve for two classes, otherwise one per class.
    converged_ : bool
        Whether the fit converged.

    See Also
    --------
    SplineCalibrator : A smooth curve whose flexibility is chosen from the data.
    BetaCalibrator : Three parameters; can also leave calibrated scores unchanged.

    References
    ----------
    J. Platt, *Probabilistic Outputs for Support Vector Machines and Comparisons to
    Regularized Likelihood Methods* (1999).

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import SigmoidCalibrator
    >>> rng = np.random.default_rng(0)
    >>> log_odds = rng.normal(size=5000)
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-log_odds))
    >>> overconfident = 1 / (1 + np.exp(-3 * log_odds))
    >>> cal = SigmoidCalibrator().fit(overconfident, y)
    >>> cal.calibrate([0.01, 0.5, 0.99]).round(2)
    array([0.17, 0.5 , 0.83])
    >>> round(cal.a_, 1)
    0.3
    """

    _parameter_constraints: ClassVar[dict[str, Domain]] = {
        "on": Choice("log_odds", "probability")
    }
    _kinds_of_map = (CalibrationCurve,)
    _prefers_margins: ClassVar[bool] = True

    def __init__(self, *, on: Literal["log_odds", "probability"] = "log_odds") -> None:
        self.on = on

    def _fit(self, rows: Rows, options: dict[str, Any]) -> Model:
        return fit_sigmoid(rows, options["on"])

    @property
    def converged_(self) -> bool:
        """Whether the fit converged."""
        return self.model_.fit.converged

    @property
    def a_(self) -> Any:
        """The slope; an array for three or more classes."""
        return one_or_array([slope_of(curve) for curve in self.model_.base_curves])

    @property
    def b_(self) -> Any:
        """The intercept; an array for three or more classes."""
        curves = self.model_.base_curves
        return one_or_array([intercept_of(curve) for curve in curves])


class IsotonicCalibrator(BaseCalibrator):
    r"""Calibrate scores by isotonic regression.

    The calibrated probabilities :math:`f_i` minimize

    .. math::
        \sum_i w_i (y_i - f_i)^2 \quad \text{subject to} \quad
        f_i \le f_j \text{ wherever } s_i \le s_j ,

    and are computed by :func:`scipy.optimize.isotonic_regression`. The curve is linear
    between the scores of the fit and constant beyond them. Probabilities are clipped to
    [1e-15, 1 - 1e-15]. If the smallest or largest scores all belong to one class, they
    get these limits, so the log-loss of new rows can be large.

    Probabilities and margins are treated alike, since only their order matters. For
    three or more classes, one curve is fitted per class against the rest, and the
    results are normalized. A class without rows gets ``1 / (n + 2)`` before
    normalization.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    curves_ : list of CalibrationCurve
        One curve for two classes, otherwise one per class.
    converged_ : bool
        Always True.

    See Also
    --------
    SplineCalibrator : With ``monotone=True``, a smooth nondecreasing curve.

    References
    ----------
    B. Zadrozny and C. Elkan, *Transforming Classifier Scores into Accurate Multiclass
    Probability Estimates* (2002).

    Examples
    --------
    >>> from calspline import IsotonicCalibrator
    >>> scores = [0.1, 0.2, 0.4, 0.6, 0.8, 0.9]
    >>> cal = IsotonicCalibrator().fit(scores, [0, 1, 0, 0, 1, 1])
    >>> cal.calibrate([0.2, 0.5, 0.7]).round(3)
    array([0.333, 0.333, 0.667])
    """

    _kinds_of_map = (CalibrationCurve,)
    _prefers_margins: ClassVar[bool] = True

    def _fit(self, rows: Rows, options: dict[str, Any]) -> Model:
        return fit_isotonic(rows)

    @property
    def converged_(self) -> bool:
        """Whether the fit converged."""
        return self.model_.fit.converged


class BetaCalibrator(BaseCalibrator):
    r"""Calibrate scores with a beta curve.

    If the scores of each class follow a beta distribution, the calibrated probability
    ``P`` of a score ``p`` is

    .. math:: \ln \frac{P}{1 - P} = a \ln p - b \ln(1 - p) + c , \qquad a, b \ge 0 .

    The coefficients are estimated by maximum likelihood. ``a = b = 1`` and ``c = 0``
    give the identity.

    Logarithms are computed from the log-odds ``x``, ``ln p = -ln(1 + exp(-x))``, and
    are limited to 36 in absolute value, the logarithm of the machine precision. Margins
    are interpreted as log-odds. A tiny ridge penalty (a millionth of an observation) on
    ``a`` and ``b`` keeps them finite if the scores separate the classes.

    For three or more classes, one curve is fitted per class against the rest, and the
    results are normalized; margins are interpreted as logits, and ``p`` is their
    softmax. A class without rows gets ``1 / (n + 2)`` before normalization.

    Parameters
    ----------
    parameters : {"abm", "am", "ab"}, default="abm"
        Which coefficients are free. ``"abm"``: all three. ``"am"``: ``a = b`` and
        ``c``, a sigmoid of the log-odds. ``"ab"``: ``a`` and ``b``, with 1/2 mapped to
        itself, ``c = (a - b) ln 2``. (``m`` is the score that is mapped to 1/2.)

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    a_, b_, c_ : float, or ndarray of shape (n_classes,)
        Coefficients of the formula; arrays for three or more classes.
    curves_ : list
        Always empty: beta calibration has no spline curve.
    converged_ : bool
        Whether the fit converged.

    See Also
    --------
    SigmoidCalibrator : The case ``a = b``, with Platt's smoothed targets.

    References
    ----------
    M. Kull, T. Silva Filho and P. Flach, *Beta calibration: a well-founded and easily
    implemented improvement on logistic calibration for binary classifiers* (AISTATS
    2017).

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import BetaCalibrator
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(5000) < 0.5
    >>> scores = np.where(y, rng.beta(4, 1, 5000), rng.beta(1, 2, 5000))
    >>> cal = BetaCalibrator().fit(scores, y)
    >>> cal.calibrate([0.2, 0.5, 0.8]).round(2)
    array([0.02, 0.33, 0.85])
    """

    _parameter_constraints: ClassVar[dict[str, Domain]] = {
        "parameters": Choice("abm", "am", "ab")
    }
    _kinds_of_map = (BetaMap,)

    def __init__(self, *, parameters: Literal["abm", "am", "ab"] = "abm") -> None:
        self.parameters = parameters

    def _fit(self, rows: Rows, options: dict[str, Any]) -> Model:
        return fit_beta(rows, options["parameters"])

    @property
    def converged_(self) -> bool:
        """Whether the fit converged."""
        return self.model_.fit.converged

    @property
    def a_(self) -> Any:
        """The coefficient ``a``; an array for three or more classes."""
        return self._coefficient("a")

    @property
    def b_(self) -> Any:
        """The coefficient ``b``; an array for three or more classes."""
        return self._coefficient("b")

    @property
    def c_(self) -> Any:
        """The constant ``c``; an array for three or more classes."""
        return self._coefficient("c")

    def _coefficient(self, name: str) -> Any:
        return one_or_array([getattr(part, name) for part in self.model_.base.parts])


class TemperatureCalibrator(BaseCalibrator):
    r"""Calibrate scores with a temperature.

    The calibrated probabilities are

    .. math:: \operatorname{softmax}(z / T)

    where ``z`` are the logarithms of the probabilities (clipped below at 1e-9), or the
    margins. With two classes this is the sigmoid of the log-odds, or of the margin,
    divided by ``T``. ``T`` minimizes the log-loss. The ranking of the classes within a
    row does not change.

    If the scores separate the classes, the optimal ``T`` is 0; if they are no better
    than chance, it is infinite. Therefore ``T`` is limited to the range from 0.001 to
    1000 times the mean absolute value of the (centred) ``z``, and probabilities stay
    about 1e-15 away from 0 and 1. If all scores are equal, the base rates are
    predicted.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    temperature_ : float
        Above 1 if the scores were over-confident; NaN if all scores were equal.
        (scikit-learn treats a two-class margin ``x`` as logits ``(-x, x)``, so its
        temperature is twice this one.)
    beta_ : float
        Inverse temperature, as in scikit-learn.
    curves_ : list of CalibrationCurve
        One curve for two classes, none for more.

    See Also
    --------
    SplineCalibrator : Its multiclass fit starts from temperature scaling.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Weinberger, *On Calibration of Modern Neural
    Networks* (ICML 2017).

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import TemperatureCalibrator
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(5000, 3))
    >>> y = (logits + rng.gumbel(size=(5000, 3))).argmax(axis=1)
    >>> cal = TemperatureCalibrator().fit(2 * logits, y)
    >>> round(cal.temperature_, 1)
    2.0
    """

    _kinds_of_map = (CalibrationCurve, Temperature, ConstantRates)
    _prefers_margins: ClassVar[bool] = True

    def _fit(self, rows: Rows, options: dict[str, Any]) -> Model:
        return fit_temperature(rows)

    @property
    def temperature_(self) -> float:
        """Temperature; NaN if all scores were equal."""
        temperature = temperature_of(self.model_)
        return float("nan") if temperature is None else temperature

    @property
    def beta_(self) -> float:
        """Inverse temperature, as in scikit-learn."""
        return 1.0 / self.temperature_


def temperature_of(model: Model) -> float | None:
    """The temperature of a fit; None if all scores were equal."""
    base = model.base
    if isinstance(base, Temperature):
        return base.temperature
    if isinstance(base, CalibrationCurve) and base.coefficients[2, 0]:
        return 1.0 / float(base.coefficients[2, 0])
    return None


class ClippingCalibrator(BaseCalibrator):
    r"""Clip probabilities from below at ``p_min`` and normalise them.

    .. math:: P_j = \frac{\max(p_j, p_{min})}{\sum_k \max(p_k, p_{min})}

    This is the baseline of the paper: a common way to limit the log-loss of
    over-confident models. Scores must be probabilities; margins are an error. Only
    ``p_min`` is learned, so constant scores are left unchanged.

    Parameters
    ----------
    p_min : float or "best", default="best"
        Lower limit of the probabilities, in (1e-15, 0.5). ``"best"`` selects the value
        among those of the paper (0.01, 0.001, 0.0001, 0.00001) with the lowest log-loss
        on the calibration rows; ties go to the smallest.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    p_min_ : float
        The lower limit used.
    curves_ : list
        Always empty: clipping has no spline curve.

    See Also
    --------
    SplineCalibrator : Smoothing-spline calibration.

    References
    ----------
    B. Lucena, *Spline-Based Probability Calibration* (2018).

    Examples
    --------
    >>> from calspline import ClippingCalibrator
    >>> scores = [[0.98, 0.02, 0.0], [0.1, 0.9, 0.0], [0.3, 0.1, 0.6]]
    >>> cal = ClippingCalibrator(p_min=0.01).fit(scores, [0, 1, 2])
    >>> cal.calibrate([[1.0, 0.0, 0.0]]).round(4)
    array([[0.9804, 0.0098, 0.0098]])
    """

    _parameter_constraints: ClassVar[dict[str, Domain]] = {
        "p_min": Either(Choice("best"), FLOOR)
    }
    _kinds_of_map = (Clipping,)
    _advice: ClassVar[str] = (
        "Clipping is for probabilities only, not for margins such as the output of a "
        "decision_function."
    )
    _fit_advice: ClassVar[str] = _advice

    def __init__(self, p_min: float | Literal["best"] = "best") -> None:
        self.p_min = p_min

    def _fit(self, rows: Rows, options: dict[str, Any]) -> Model:
        return fit_clipping(rows, options["p_min"])

    @property
    def _requirement(self) -> Requirement:
        return "probability"

    @property
    def p_min_(self) -> float:
        """The lower limit of the probabilities."""
        base = self.model_.base
        assert isinstance(base, Clipping)
        return base.p_min


def slope_of(curve: CalibrationCurve) -> float:
    """The slope of a straight line."""
    return float(curve.coefficients[2, 0])


def intercept_of(curve: CalibrationCurve) -> float:
    """The value of a straight line at zero."""
    return float(curve.coefficients[3, 0]) - slope_of(curve) * curve.origin


def one_or_array(values: list[float]) -> Any:
    """A number for two classes, an array for more."""
    return values[0] if len(values) == 1 else np.array(values)
