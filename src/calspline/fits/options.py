"""Checked options of a spline fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from calspline._arrays import Array
from calspline._input.scores import Kind, Requirement
from calspline.transforms import TRANSFORMS


@dataclass(frozen=True)
class Recipe:
    """Checked options of a spline fit; see :class:`~calspline.SplineCalibrator`.

    ``design_effect`` and ``segment_design_effect`` are not options, but what dependent
    rows show: rows count one divided by them, where curves are fitted and where
    segments are compared. None for segments: no more is known than for curves.
    """

    scale: str = "auto"
    epsilon: float | Literal["auto"] = "auto"
    knots: Literal["quantile", "sample"] = "quantile"
    n_knots: int | None = None
    penalty: Literal["curvature", "ridge"] = "curvature"
    smoothing: Literal["reml", "cv"] | float = "reml"
    smoothing_grid: Array | None = None
    cv: int = 5
    loss: Literal["log", "brier"] = "log"
    monotone: bool | Literal["auto"] = "auto"
    seed: int = 0
    design_effect: float = 1.0
    segment_design_effect: float | None = None

    @property
    def is_default(self) -> bool:
        """Whether no option is one of the paper's."""
        return (
            self.knots == "quantile"
            and self.penalty == "curvature"
            and self.smoothing != "cv"
            and self.loss == "log"
            and (self.scale == "auto" or not TRANSFORMS[self.scale].takes_epsilon)
        )

    def of_classes(self, kind: Kind) -> Recipe:
        """The options for each class against the rest; logits become probabilities."""
        return replace(self, scale="auto") if kind == "margin" else self

    @property
    def by_evidence(self) -> bool:
        """Whether the marginal likelihood chooses the smoothing."""
        return self.smoothing == "reml"

    @property
    def design_effect_of_segments(self) -> float:
        """What rows are divided by where segments are compared."""
        if self.segment_design_effect is None:
            return self.design_effect
        return self.segment_design_effect

    @property
    def link(self) -> Literal["logit", "identity"]:
        """What the curve is of: log-odds or probabilities."""
        return "logit" if self.loss == "log" else "identity"

    def probability_limits(self, total: float) -> tuple[float, float]:
        """Least and largest probability of a curve, given the effective rows.

        The log loss needs none but for rounding. The Brier loss would let a rare class
        have probability 0; the limit is what one more row of it would give.
        """
        least = 1e-15
        if self.loss == "brier":
            least = min(max(1.0 / (total + 2.0), least), 0.25)
        return least, 1.0 - least


def required_scores(scale: str) -> Requirement:
    """What scores have to be for a scale."""
    if scale == "auto":
        return "auto"
    return "probability" if TRANSFORMS[scale].takes_probabilities else "margin"
