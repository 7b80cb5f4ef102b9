"""Binary methods for any number of classes: one map per class against the rest, then normalise."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from calspline.arrays import Array, one_blas_thread
from calspline.calibrators.base import ALL_EQUAL, NOT_CONVERGED, BaseCalibrator, warn_user
from calspline.curve import CalibrationCurve, constant
from calspline.expression import Program, one_vs_rest
from calspline.multiclass.one_vs_rest import AgainstRest, ScoreMap, combine, fit_classes
from calspline.options import BOOLEAN, Domain
from calspline.scores import BinaryScores, Kind, MatrixScores

M = TypeVar("M", bound=ScoreMap)


@dataclass(frozen=True)
class MapFit(Generic[M]):
    """A fitted map; ``constant`` where all scores were equal."""

    map: M
    constant: bool = False
    converged: bool = True


class OneVsRestCalibrator(BaseCalibrator, Generic[M]):
    """A calibrator whose method maps one class's score to its probability.

    For three or more classes each has its map against the rest, and rows are then
    normalised; a row that sums to nothing becomes uniform. A class that no row shows
    has the probability that the rule of succession gives it, ``1 / (n + 2)``, before that.
    """

    _maps: list[M]
    converged_: bool

    exported: ClassVar[bool] = True

    _stored: ClassVar[dict[str, Domain]] = {"converged": BOOLEAN}

    @abstractmethod
    def _fit_map(self, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None) -> MapFit[M]:
        """Fit one class against the rest; both occur."""

    @abstractmethod
    def _constant_map(self, kind: Kind, rate: float) -> M:
        """The same probability for every score."""

    @abstractmethod
    def _set_maps(self, maps: list[M]) -> None:
        """Set the fitted attributes that the maps give: one map for two classes, else one per class."""

    def _columns(self, scores: MatrixScores) -> AgainstRest:
        """Each class's score against the rest; a margin is that already."""
        return AgainstRest(scores, "logit", logits=False)

    def _fit_two(self, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None, options: Any) -> None:
        with one_blas_thread():
            self._set_fits([self._fit_map(scores, positive, weight)])

    def _fit_many(self, scores: MatrixScores, codes: NDArray[np.intp], weight: Array | None, options: Any) -> None:
        columns = self._columns(scores)
        with one_blas_thread():
            fits = fit_classes(
                columns,
                codes,
                weight,
                lambda classes: [self._fit_map(*one, weight) for one in classes],
                lambda rate, total: MapFit(self._constant_map(columns.kind, rate), constant=True),
            )
        self._set_fits(fits)

    def _set_fits(self, fits: list[MapFit[M]]) -> None:
        if all(fit.constant for fit in fits):
            warn_user(ALL_EQUAL)
        self.converged_ = all(fit.converged for fit in fits)
        if not self.converged_:
            warn_user(NOT_CONVERGED, ConvergenceWarning)
        self._keep([fit.map for fit in fits])

    def _keep(self, maps: list[M]) -> None:
        self._maps = maps
        self._set_maps(maps)

    def _two(self, scores: BinaryScores) -> Array:
        return self._maps[0].evaluate(scores)

    def _many(self, scores: MatrixScores) -> Array:
        return combine(self._maps, self._columns(scores))

    @abstractmethod
    def _maps_from(self, facts: dict[str, Any], curves: list[CalibrationCurve]) -> list[M]:
        """The maps that a file describes."""

    def _restore(self, facts: dict[str, Any], curves: list[CalibrationCurve], structure: Any, n_classes: int) -> None:
        maps = self._maps_from(facts, curves)
        if len(maps) != (1 if n_classes == 2 else n_classes):
            raise ValueError(f"curves must be one for two classes, or one per class; got {len(maps)}")
        self.converged_ = facts["converged"]
        self._keep(maps)


class CurveCalibrator(OneVsRestCalibrator[CalibrationCurve]):
    """A method whose map is a :class:`~calspline.CalibrationCurve`."""

    def _constant_map(self, kind: Kind, rate: float) -> CalibrationCurve:
        return constant(kind, rate)

    def _set_maps(self, maps: list[CalibrationCurve]) -> None:
        self.curves_ = maps

    def _maps_from(self, facts: dict[str, Any], curves: list[CalibrationCurve]) -> list[CalibrationCurve]:
        return curves

    def _many_program(self) -> Program:
        return one_vs_rest([curve.program("pair") for curve in self.curves_])
