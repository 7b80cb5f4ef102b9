"""OneVsRest: a map for each class against the rest, then rows are normalized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import scipy

from calspline._arrays import Array
from calspline._codec import check_fields
from calspline._domains import Number
from calspline._expression import (
    Lookup,
    Program,
    call,
    logits_in_unit,
    name,
    one_vs_rest,
)
from calspline._input.scores import Kind, MatrixScores
from calspline.maps.base import CalibrationMap, Segments, Table
from calspline.maps.curve import CalibrationCurve
from calspline.maps.log_odds import LogOdds, log_odds_of_rows
from calspline.maps.parametric import BetaMap
from calspline.maps.segmented import SegmentedCurve, lookups
from calspline.multiclass.one_vs_rest import (
    LEAST_LOGIT,
    AgainstRest,
    normalise,
    tempered,
)
from calspline.transforms import Source

if TYPE_CHECKING:
    from calspline.maps.segment_columns import SegmentColumn

Logits = Literal["as_given", "tempered", "softmax"]
"""What becomes of margins before each class has its own map."""
ClassMap = CalibrationCurve | SegmentedCurve | BetaMap


@dataclass(frozen=True, eq=False)
class OneVsRest(CalibrationMap[MatrixScores]):
    """``f_j(s_j) / sum_k f_k(s_k)``, where ``s_j`` is the score of class j.

    With ``own_only``, maps take a class's own probability as a plain number. Of logits
    they take the softmax; ``tempered`` logits are multiplied by ``unit`` first.
    """

    maps: tuple[ClassMap, ...]
    logits: Logits = "tempered"
    own_only: bool = False
    unit: Annotated[float, Number(above=0.0)] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        segments = [
            [column.known.labels for column in each.segment_columns]
            for each in self.maps
        ]
        if any(each != segments[0] for each in segments):
            raise ValueError("maps must all have the same segments")

    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether each class has a map, which suits the scores against the rest."""
        own = self._column_kind(kind)
        suit = all(each.suits(own, 2) for each in self.maps)
        return n_classes == len(self.maps) > 2 and suit

    def columns(self, scores: MatrixScores) -> AgainstRest:
        """The score of each class against the rest."""
        if scores.kind == "margin" and self.logits == "tempered":
            scores = tempered(scores.values, self.unit)
        elif scores.kind == "margin" and self.logits == "softmax":
            p = scipy.special.softmax(scores.values.astype(np.float64), axis=1)
            scores = MatrixScores("probability", p)
        return AgainstRest(scores, "identity" if self.own_only else "logit")

    def probabilities(
        self, scores: MatrixScores, segments: Segments | None = None
    ) -> Array:
        """Probabilities of all classes; a row whose sum vanishes is uniform."""
        p = np.empty(scores.values.shape)
        for j, column in enumerate(self.columns(scores)):
            p[:, j] = self.maps[j].probabilities(column, segments)
        normalise(p)
        return p

    def log_odds(
        self,
        scores: MatrixScores,
        segments: Segments | None = None,
        *,
        at: Array | None = None,
    ) -> LogOdds | None:
        """Log-odds of every class, with the standard deviations of its own curve.

        Probabilities sum to one, so errors of the other curves only make up for that of
        its own: if each curve is right, so is the sum before rows are normalized.
        """
        p = self.probabilities(scores, segments) if at is None else at
        sd = np.empty(p.shape)
        for j, column in enumerate(self.columns(scores)):
            own = self.maps[j].log_odds(column, segments)
            if own is None:
                return None
            sd[:, j] = own.sd
        return LogOdds(log_odds_of_rows(p), sd)

    def formula(self, source: Source, kind: Kind) -> Program:
        """The map in steps that every export can write."""
        programs = [each.formula("pair", self._column_kind(kind)) for each in self.maps]
        if kind == "margin" and self.logits == "tempered":
            logits = logits_in_unit(self.unit, LEAST_LOGIT)
            steps = [*logits.steps, ("v", logits.result)]
            scores = Program(steps, call("softmax", name("v")))
            return one_vs_rest(programs, scores)
        if kind == "margin" and self.logits == "softmax":
            steps = [("v", call("softmax", name("p")))]
            return one_vs_rest(programs, Program(steps, name("v")))
        return one_vs_rest(programs, Program([], name("p")))

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code."""
        logits = self.logits if kind == "margin" else "as_given"
        own = self._column_kind(kind)
        table: Table = {"type": "one_vs_rest", "scores": own, "logits": logits}
        if logits == "tempered":
            table |= {"unit": self.unit, "floor": LEAST_LOGIT}
        return table | {"maps": [each.table(own) for each in self.maps]}

    def _column_kind(self, kind: Kind) -> Kind:
        return kind if self.logits == "as_given" else "probability"

    def describe(self) -> list[str]:
        """The map of each class in words."""
        return [line for each in self.maps for line in each.describe()]

    @property
    def parts(self) -> Sequence[ClassMap]:
        """The map of each class."""
        return self.maps

    @property
    def segment_columns(self) -> Sequence[SegmentColumn]:
        """The columns of segments, those of the first class."""
        return self.maps[0].segment_columns

    @property
    def lookups(self) -> list[Lookup]:
        """What the names of segment effects stand for."""
        return lookups([each for each in self.maps if isinstance(each, SegmentedCurve)])
