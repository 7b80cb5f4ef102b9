"""Calibrators that are exported, and unusual scores with what Python makes of them.

Each file has the numbers of Python, once; every target is compared with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from tests.golden import data
from tests.golden.cases_fits import by_country, of, quiet
from tests.golden.data import Rows
from tests.golden.record import Area, Case

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
)

PROBABILITIES = np.array(
    [
        0.0, 1.0, 5e-324, 1e-310, 2.3e-308, 1e-300, 1e-200, 1e-17, 1e-16, 1e-9, 1e-4,
        0.003, 0.02, 0.1, 0.25, 1 / 3,
        0.5, 0.6, 0.75, 0.9, 0.98, 0.997, 0.9999, 1.0 - 1e-9, 1.0 - 1e-16,
    ]
)  # fmt: skip
BELOW_ONE = PROBABILITIES[PROBABILITIES < 1.0]
"""An exact 1 is less certain in one column, which rounds, than in two."""
MARGINS = np.array(
    [
        0.0, -0.0, 5e-324, -1e-310, 1e-95, 1.0, -1.0, 0.3, -0.3, 2.5, -2.5, 6.0, -6.0,
        15.0, -15.0, 1e3, -1e3, 1e9,
        -1e9, 1e100, -1e100,
    ]
)  # fmt: skip
ROWS = np.array(
    [
        [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0],
        [0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3], [1.0, 5e-324, 0.0],
        [1e-310, 1.0, 1e-300], [1e-40, 1e-20, 1.0], [0.4, 0.4, 0.2005],
        [0.3, 0.3505, 0.3505],
        [0.1, 0.2, 0.7], [0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.98, 0.01, 0.01],
    ]
)  # fmt: skip
LOGITS = np.array(
    [
        [0.0, 0.0, 0.0], [1e6, 0.0, -1e6], [5e-324, 0.0, -5e-324], [800.0, 0.0, 0.0],
        [1.0, 2.0, 3.0],
        [-4.0, 0.5, 2.0], [7.1, 6.9, 7.0], [-30.0, -31.0, -29.0],
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Export:
    """A calibrator to be exported, the rows of its fit, and unusual scores."""

    make: Callable[[], Any]
    rows: Callable[[], Rows]
    scores: Any
    shift: float | None = None
    one_column: bool = False
    """Whether ONNX takes one column: the scores are margins, or used as they are."""

    @property
    def columns(self) -> Any:
        return (
            [f"s{j}" for j in range(self.scores.shape[1])]
            if self.scores.ndim == 2
            else "score"
        )

    def calibrator(self) -> Any:
        return fitted(self)

    @property
    def by(self) -> list[list[Any]]:
        """Segments of the scores by column, also new ones; empty without segments."""
        asked = self.rows().probes_by
        if asked is None:
            return []
        columns = asked if isinstance(asked[0], list) else [asked]
        n = len(self.scores)
        return [
            data.repeated([new_if_none(each) for each in column], n)
            for column in columns
        ]

    def result(self) -> dict[str, Any]:
        by = self.by
        given = {"by": by if len(by) > 1 else by[0]} if by else {}
        with quiet():
            return {"calibrated": self.calibrator().calibrate(self.scores, **given)}


def new_if_none(label: Any) -> Any:
    return "zz" if label is None else label


@cache
def fitted_by_name(name: str) -> Any:
    export = EXPORTS[name]
    with quiet():
        calibrator = export.make().fit(**export.rows().fit_arguments)
        return (
            calibrator
            if export.shift is None
            else calibrator.shifted(base_rate=export.shift)
        )


def fitted(export: Export) -> Any:
    (name,) = [name for name, each in EXPORTS.items() if each is export]
    return fitted_by_name(name)


def texts(rows: Rows) -> Rows:
    """Two columns of segments, both texts, which every target takes."""
    return data.segmented(
        rows, ("at", "be", 'c"\\h', "", "é ü"), ("app", "web", "shop")
    )


wavy, margins, three = data.wavy, data.margins, data.three
EXPORTS = {
    "spline": Export(SplineCalibrator, wavy, PROBABILITIES),
    "spline-exact-ends": Export(SplineCalibrator, data.ends, PROBABILITIES),
    "spline-shifted": Export(SplineCalibrator, wavy, PROBABILITIES, shift=0.03),
    "spline-compact-logit": Export(
        lambda: SplineCalibrator(scale="compact_logit"), data.ends, PROBABILITIES
    ),
    "spline-asinh-logit": Export(
        lambda: SplineCalibrator(scale="asinh_logit"), data.extreme, BELOW_ONE
    ),
    "spline-identity": Export(
        lambda: SplineCalibrator(scale="identity"), wavy, PROBABILITIES, one_column=True
    ),
    "spline-margins": Export(SplineCalibrator, margins, MARGINS, one_column=True),
    "spline-monotone": Export(
        lambda: SplineCalibrator(monotone=True), data.bent, PROBABILITIES
    ),
    "spline-brier": Export(lambda: SplineCalibrator(loss="brier"), wavy, PROBABILITIES),
    "spline-paper": Export(
        lambda: SplineCalibrator.paper(1, n_knots=12, smoothing_grid=[1.0]),
        wavy,
        PROBABILITIES,
        one_column=True,
    ),
    "spline-constant": Export(SplineCalibrator, data.constant, PROBABILITIES),
    "spline-by": Export(
        SplineCalibrator, of(lambda: wavy(2000), by_country), PROBABILITIES
    ),
    "spline-by-shifted": Export(
        SplineCalibrator, of(lambda: wavy(2000), by_country), PROBABILITIES, shift=0.1
    ),
    "spline-by-margins": Export(
        SplineCalibrator,
        of(lambda: margins(2000), by_country),
        MARGINS,
        one_column=True,
    ),
    "spline-by-two-columns": Export(
        SplineCalibrator, of(lambda: wavy(2000), texts), PROBABILITIES
    ),
    "structured": Export(SplineCalibrator, three, ROWS),
    "structured-monotone": Export(lambda: SplineCalibrator(monotone=True), three, ROWS),
    "structured-logits": Export(SplineCalibrator, lambda: data.logits(3, 700), LOGITS),
    "structured-by": Export(
        SplineCalibrator, of(lambda: three(1500), by_country), ROWS
    ),
    "ovr": Export(lambda: SplineCalibrator(multiclass="ovr"), three, ROWS),
    "ovr-logits": Export(
        lambda: SplineCalibrator(multiclass="ovr"), lambda: data.logits(3, 700), LOGITS
    ),
    "ovr-by": Export(
        lambda: SplineCalibrator(multiclass="ovr"),
        of(lambda: three(1500), by_country),
        ROWS,
    ),
    "sigmoid": Export(SigmoidCalibrator, wavy, PROBABILITIES),
    "sigmoid-on-probability": Export(
        lambda: SigmoidCalibrator(on="probability"), wavy, PROBABILITIES
    ),
    "sigmoid-margins": Export(SigmoidCalibrator, margins, MARGINS, one_column=True),
    "isotonic": Export(IsotonicCalibrator, wavy, PROBABILITIES),
    "isotonic-three-classes": Export(IsotonicCalibrator, three, ROWS),
    "beta": Export(BetaCalibrator, wavy, PROBABILITIES),
    "beta-margins": Export(BetaCalibrator, margins, MARGINS, one_column=True),
    "temperature": Export(TemperatureCalibrator, wavy, PROBABILITIES),
    "temperature-three-classes": Export(TemperatureCalibrator, three, ROWS),
    "temperature-logits": Export(
        TemperatureCalibrator, lambda: data.logits(3, 700), LOGITS
    ),
    "clipping": Export(lambda: ClippingCalibrator(p_min=0.01), wavy, PROBABILITIES),
    "clipping-three-classes": Export(
        lambda: ClippingCalibrator(p_min=0.01), three, ROWS
    ),
}

FAR = "scores up to 1e100 multiply the rounding of a slope"


def case(export: Export) -> Case:
    if export.scores is MARGINS:
        return Case(export.result, 1e-8, reason=FAR)
    return Case(export.result)


AREA = Area("exports", {name: case(export) for name, export in EXPORTS.items()})
