"""TemperatureCalibrator: one number for all classes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import MIN_SPAN, Array, Counts, chunks, filled
from calspline.calibrators.base import ALL_EQUAL, BaseCalibrator
from calspline.curve import CalibrationCurve, constant, line
from calspline.expression import Constant, Program, between, call, name, number
from calspline.fitting.newton import log_loss
from calspline.labels import warn_user
from calspline.multiclass.scale import Derivatives, inverse_temperature, softmax_loss, unmasked
from calspline.options import Domain, Number, Numbers, optional
from calspline.scores import BinaryScores, LabelledRows, MatrixScores
from calspline.transforms import SMALLEST_PROBABILITY, Transform

MIN_PROBABILITY = 1e-9
LARGEST_EXPONENT = float(-np.log(1e-15))
REACH = float(np.log(1000.0))
"""The inverse temperature times the mean size of the scores lies within ``exp(-REACH)`` and ``exp(REACH)``."""


class TemperatureCalibrator(BaseCalibrator):
    r"""Calibrate scores with a temperature.

    The calibrated probabilities are

    .. math:: \operatorname{softmax}(z / T)

    where ``z`` are the logarithms of probabilities (none below that of 1e-9), or margins as they are. With two
    classes this is the sigmoid of the log-odds, or of the margin, divided by ``T``. ``T`` minimises the log-loss.
    It changes no row's ranking of the classes.

    Where scores separate the classes the best ``T`` is 0, and where they are no better than chance it is infinite:
    ``T`` is kept within a thousandth and a thousand times the mean size of the (centred) ``z``. Probabilities
    are kept about 1e-15 away from 0 and 1. Where all scores are equal there is nothing to scale, and the base rates are
    the answer.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted: the order of columns.
    temperature_ : float
        Above 1 the scores were over-confident. NaN where all scores were equal. (scikit-learn writes a
        two-class margin ``x`` as logits ``(-x, x)``, so that its temperature is twice this one.)
    beta_ : float
        The inverse of the temperature, by scikit-learn's name.
    curves_ : list of CalibrationCurve
        One curve for a two-class problem, none for more classes.

    See Also
    --------
    SplineCalibrator : Its multiclass fit begins with a temperature.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Weinberger, *On Calibration of Modern Neural Networks* (ICML 2017).

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

    prefers_margins: ClassVar[bool] = True

    _stored: ClassVar[dict[str, Domain]] = {
        "temperature": optional(Number(above=0.0)),
        "rates": optional(Numbers(positive=True)),
    }
    temperature_: float
    _rates: list[float] | None

    @property
    def beta_(self) -> float:
        """The inverse temperature, by scikit-learn's name."""
        return 1.0 / self.temperature_

    def _fit_two(self, scores: BinaryScores, positive: NDArray[np.bool_], rows: LabelledRows, options: Any) -> None:
        transform = Transform("logit" if scores.kind == "probability" else "identity")
        x = scores.locations()
        x = transform.from_log_odds(x) if transform.takes_probabilities else x
        counts = Counts.from_rows(x, positive, rows.weight)
        if counts.all_equal:
            warn_user(ALL_EQUAL)
            rate = counts.base_rate
            self.curves_, self.temperature_, self._rates = [constant(scores.kind, rate)], np.nan, [1.0 - rate, rate]
            return
        w, w1 = counts.w / counts.total, counts.positives / counts.total
        size = float(w @ np.abs(counts.x))
        x = counts.x / size

        def loss(beta: float) -> Derivatives:
            local = log_loss(beta * x, w, w1)
            return float(local.value), float(local.slope @ x), float(local.curvature @ (x * x))

        beta = inverse_temperature(loss, -REACH, REACH) / size
        self.curves_, self.temperature_, self._rates = [line(transform, beta, 0.0)], 1.0 / beta, None

    def _fit_many(self, scores: MatrixScores, codes: NDArray[np.intp], rows: LabelledRows, options: Any) -> None:
        scores = unmasked(scores, rows.weight)
        n, m = scores.values.shape
        w = np.full(n, 1.0 / n) if rows.weight is None else rows.weight / rows.weight.sum()
        self.curves_ = []
        if np.all(np.ptp(scores.values, axis=0) <= MIN_SPAN):
            warn_user(ALL_EQUAL)
            total = float(n if rows.weight is None else rows.weight.sum())
            rates = np.maximum(np.bincount(codes, w, m), 1.0 / (total + 2.0))
            self.temperature_, self._rates = np.nan, (rates / rates.sum()).tolist()
            return
        size = 0.0
        for some in chunks(n):
            z = _logits(scores, some)
            size += float(w[some] @ np.abs(z - z.mean(axis=1, keepdims=True)).mean(axis=1))
        loss = softmax_loss(lambda some: _logits(scores, some) / size, codes, w, m)
        self.temperature_, self._rates = size / inverse_temperature(loss, -REACH, REACH), None

    def _two(self, scores: BinaryScores) -> Array:
        return self.curves_[0].evaluate(scores)

    def _many(self, scores: MatrixScores) -> Array:
        if self._rates is not None:
            return np.tile(self._rates, (len(scores.values), 1))

        def probabilities(rows: slice) -> Array:
            e = np.exp(np.maximum(_logits(scores, rows) / self.temperature_, -LARGEST_EXPONENT))
            return np.asarray(e / e.sum(axis=1, keepdims=True))

        return filled(np.empty(scores.values.shape), probabilities)

    def _many_program(self) -> Program:
        if self._rates is not None:
            return Program([("q", Constant("RATES", self._rates).expression)], call("normalise", name("q")))
        steps, z = [], name("p")
        if self.kind_ == "probability":
            steps.append(("z", call("log", call("max", z, MIN_PROBABILITY))))
            z = name("z")
        d = call("max", name("d"), -LARGEST_EXPONENT * self.temperature_)
        if self.kind_ == "margin":
            # PostgreSQL takes it for an error if the quotient of a tiny difference vanishes.
            d = between(d, (-SMALLEST_PROBABILITY, 0.0), number(0.0), d)
        steps += [("d", call("centred", z)), ("e", call("exp", d / self.temperature_))]
        return Program(steps, call("normalise", name("e")))

    def _facts(self) -> dict[str, Any]:
        return {"temperature": None if self._rates else self.temperature_, "rates": self._rates}

    def _restore(self, facts: dict[str, Any], curves: list[CalibrationCurve], structure: Any, n_classes: int) -> None:
        if len(curves) != (1 if n_classes == 2 else 0):
            raise ValueError(f"curves must be one for two classes, and none for more; got {len(curves)}")
        temperature, rates = facts["temperature"], facts["rates"]
        if (temperature is None) == (rates is None):
            raise ValueError("temperature must be a number, unless there are rates")
        if rates is not None and (len(rates) != n_classes or abs(rates.sum() - 1.0) > 1e-9):
            raise ValueError("rates must be one for each class, and sum to one")
        self.curves_ = curves
        self.temperature_ = np.nan if temperature is None else temperature
        self._rates = None if rates is None else rates.tolist()


def _logits(scores: MatrixScores, rows: slice) -> Array:
    """``z`` of some rows, less the largest of each row."""
    values = scores.values[rows].astype(np.float64, copy=False)
    z = np.log(np.maximum(values, MIN_PROBABILITY)) if scores.kind == "probability" else values
    return np.asarray(z - z.max(axis=1, keepdims=True))
