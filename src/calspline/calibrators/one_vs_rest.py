"""Binary methods for any number of classes: one map per class against the rest, then normalise."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, one_blas_thread
from calspline.calibrators.base import ALL_EQUAL, BaseCalibrator, warn_not_converged
from calspline.curve import CalibrationCurve, constant
from calspline.expression import Program, one_vs_rest
from calspline.labels import warn_user
from calspline.multiclass.one_vs_rest import AgainstRest, ScoreMap, combine, fit_classes
from calspline.multiclass.scale import unmasked
from calspline.options import BOOLEAN, Domain
from calspline.scores import BinaryScores, Kind, LabelledRows, MatrixScores


@dataclass(frozen=True)
class MapFit:
    """A fitted map; ``constant`` where all scores were equal."""

    map: ScoreMap
    constant: bool = False
    converged: bool = True


class OneVsRestCalibrator(BaseCalibrator):
    """A calibrator whose method maps one class's score to its probability; see :func:`fit_classes` and :func:`combine`.

    Maps are :class:`~calspline.CalibrationCurve` objects, unless a method overrides what is done with them.
    """

    _maps: list[Any]
    converged_: bool

    exported: ClassVar[bool] = True

    _stored: ClassVar[dict[str, Domain]] = {"converged": BOOLEAN}

    @abstractmethod
    def _fit_map(self, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None) -> MapFit:
        """Fit one class against the rest; both occur."""

    def _constant_map(self, kind: Kind, rate: float) -> ScoreMap:
        """The same probability for every score."""
        return constant(kind, rate)

    def _set_maps(self, maps: list[Any]) -> None:
        """Set the fitted attributes that the maps give: one map for two classes, else one per class."""
        self._maps = self.curves_ = maps

    def _maps_from(self, facts: dict[str, Any], curves: list[CalibrationCurve]) -> list[Any]:
        """The maps that a file describes."""
        return curves

    def _columns(self, scores: MatrixScores) -> AgainstRest:
        """Each class's score against the rest; a margin is that already."""
        return AgainstRest(scores, "logit", logits=False)

    def _fit_two(self, scores: BinaryScores, positive: NDArray[np.bool_], rows: LabelledRows, options: Any) -> None:
        with one_blas_thread():
            self._set_fits([self._fit_map(scores, positive, rows.weight)])

    def _fit_many(self, scores: MatrixScores, codes: NDArray[np.intp], rows: LabelledRows, options: Any) -> None:
        columns = self._columns(unmasked(scores, rows.weight))
        with one_blas_thread():
            fits = fit_classes(
                columns,
                codes,
                rows.weight,
                lambda column, positive: self._fit_map(column, positive, rows.weight),
                lambda rate, total: MapFit(self._constant_map(columns.kind, rate), constant=True),
            )
        self._set_fits(fits)

    def _set_fits(self, fits: list[MapFit]) -> None:
        if all(fit.constant for fit in fits):
            warn_user(ALL_EQUAL)
        self.converged_ = all(fit.converged for fit in fits)
        if not self.converged_:
            warn_not_converged()
        self._set_maps([fit.map for fit in fits])

    def _two(self, scores: BinaryScores) -> Array:
        p: Array = self._maps[0].evaluate(scores)
        return p

    def _many(self, scores: MatrixScores) -> Array:
        return combine([each.evaluate for each in self._maps], self._columns(scores))

    def _many_program(self) -> Program:
        return one_vs_rest([each.program("pair") for each in self._maps])

    def _restore(self, facts: dict[str, Any], curves: list[CalibrationCurve], structure: Any, n_classes: int) -> None:
        maps = self._maps_from(facts, curves)
        if len(maps) != (1 if n_classes == 2 else n_classes):
            raise ValueError(f"curves must be one for two classes, or one per class; got {len(maps)}")
        self.converged_ = facts["converged"]
        self._set_maps(maps)
