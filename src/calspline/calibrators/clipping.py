"""ClippingCalibrator: no probability below a floor."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, filled
from calspline.calibrators.base import BaseCalibrator
from calspline.curve import CalibrationCurve
from calspline.expression import Program, call, name
from calspline.options import Choice, Domain, Either, Number
from calspline.scores import BinaryScores, LabelledRows, MatrixKind, MatrixScores
from calspline.transforms import Source

PAPERS_FLOORS = (0.00001, 0.0001, 0.001, 0.01)
FLOOR = Number(above=1e-15, below=0.5)


class ClippingCalibrator(BaseCalibrator):
    r"""Clip probabilities: floor each class at ``p_min``, then normalise.

    .. math:: P_j = \frac{\max(p_j, p_{min})}{\sum_k \max(p_k, p_{min})}

    What the paper compares with: the usual remedy against the log-loss of over-confident models. It takes probabilities
    only; margins are an error. It learns nothing but ``p_min``, so scores that are all equal stay as they are.

    Parameters
    ----------
    p_min : float or "best", default="best"
        The floor, in (1e-15, 0.5). ``"best"`` is the one of the paper's four, 0.01, 0.001, 0.0001 and 0.00001, with the
        least log-loss on the calibration rows; of equals, the smallest.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted: the order of columns.
    p_min_ : float
        The floor in use.
    curves_ : list
        Empty: clipping is no :class:`~calspline.CalibrationCurve`.

    See Also
    --------
    SplineCalibrator : The paper's method.

    References
    ----------
    B. Lucena, *Spline-Based Probability Calibration* (2018).

    Examples
    --------
    >>> from calspline import ClippingCalibrator
    >>> cal = ClippingCalibrator(p_min=0.01).fit([[0.98, 0.02, 0.0], [0.1, 0.9, 0.0], [0.3, 0.1, 0.6]], [0, 1, 2])
    >>> cal.calibrate([[1.0, 0.0, 0.0]]).round(4)
    array([[0.9804, 0.0098, 0.0098]])
    """

    _parameter_constraints: ClassVar[dict[str, Domain]] = {"p_min": Either(Choice("best"), FLOOR)}
    _stored: ClassVar[dict[str, Domain]] = {"p_min": FLOOR}
    _stores_curves: ClassVar[bool] = False
    _advice: ClassVar[str] = "Clipping is for probabilities only, not for margins such as a decision_function gives."
    _fit_advice: ClassVar[str] = _advice

    def __init__(self, p_min: float | Literal["best"] = "best") -> None:
        self.p_min = p_min

    def _takes(self, options: Any, margins: bool) -> MatrixKind:
        if margins:
            raise ValueError(f"scores must be probabilities in [0, 1]; got margins. {self._advice}")
        return "probability"

    def _fit_two(self, scores: BinaryScores, positive: NDArray[np.bool_], rows: LabelledRows, options: Any) -> None:
        pair = MatrixScores("probability", _pair(scores, slice(None)))
        self._fit_many(pair, positive.astype(np.intp), rows, options)

    def _fit_many(self, scores: MatrixScores, codes: NDArray[np.intp], rows: LabelledRows, options: Any) -> None:
        self.curves_, self.p_min_ = [], options["p_min"]
        if self.p_min_ == "best":
            losses = np.array([_log_loss(scores.values, codes, rows.weight, floor) for floor in PAPERS_FLOORS])
            # A tie must not be decided by rounding, and so by the order of rows.
            self.p_min_ = PAPERS_FLOORS[int(np.argmax(losses <= losses.min() * (1.0 + 1e-12)))]

    def _two(self, scores: BinaryScores) -> Array:
        return filled(np.empty(len(scores)), lambda rows: _clipped(_pair(scores, rows), self.p_min_)[:, 1])

    def _many(self, scores: MatrixScores) -> Array:
        return filled(np.empty(scores.values.shape), lambda rows: _clipped(scores.values[rows], self.p_min_))

    def _two_program(self, source: Source) -> Program:
        rest = 1.0 - name("p") if source == "one" else name("rest")
        steps = [(what, call("max", value, self.p_min_)) for what, value in (("q", name("p")), ("r", rest))]
        return Program(steps, name("q") / (name("q") + name("r")))

    def _many_program(self) -> Program:
        return Program([("q", call("max", name("p"), self.p_min_))], call("normalise", name("q")))

    def _restore(self, facts: dict[str, Any], curves: list[CalibrationCurve], structure: Any, n_classes: int) -> None:
        if facts["kind"] != "probability":
            raise ValueError("kind must be probability for ClippingCalibrator")
        super()._restore(facts, curves, structure, n_classes)


def _pair(scores: BinaryScores, rows: slice) -> Array:
    """Probabilities of both classes."""
    second = scores.values[rows].astype(np.float64)
    return np.column_stack([1.0 - second if scores.first is None else scores.first[rows], second])


def _clipped(p: NDArray[np.floating[Any]], floor: float) -> Array:
    out = np.maximum(p, floor, dtype=np.float64)
    out /= out.sum(axis=1, keepdims=True)
    return np.asarray(out)


def _log_loss(p: NDArray[np.floating[Any]], codes: NDArray[np.intp], weight: Array | None, floor: float) -> float:
    def own(rows: slice) -> Array:
        block = _clipped(p[rows], floor)
        return np.asarray(block[np.arange(len(block)), codes[rows]])

    return float(-np.average(np.log(filled(np.empty(len(p)), own, p.shape[1])), weights=weight))
