"""Fits from data frames: one file for each case, the same for every engine.

Engines sum in an order of their own, so that they agree to 1e-9, as is guaranteed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from tests.golden import data
from tests.golden.cases_fits import by_country, by_country_and_device, of, quiet
from tests.golden.data import Rows
from tests.golden.record import Area, Case, plain

from calspline import apply_frame, fit_frame

CLASSES = ("cat", "dog", "eel")


@dataclass(frozen=True)
class FrameFit:
    """Rows as columns of a frame, and the arguments of ``fit_frame`` that name them."""

    rows: Callable[[], Rows]
    arguments: dict[str, Any]

    def frame(self) -> pd.DataFrame:
        rows = self.rows()
        columns: dict[str, Any] = {"p": rows.scores}
        if rows.scores.ndim == 2:
            columns = {name: rows.scores[:, j] for j, name in enumerate(CLASSES)}
        labels = np.array(CLASSES if rows.scores.ndim == 2 else ("no", "yes"))
        columns |= {
            "label": labels[rows.y],
            "weight": rows.weight,
            "group": rows.groups,
        }
        by = rows.by if isinstance(rows.by, list) else [rows.by]
        columns |= dict(zip(("country", "device"), by, strict=False))
        return pd.DataFrame(
            {name: column for name, column in columns.items() if column is not None}
        )

    def score(self) -> Any:
        return list(CLASSES) if self.rows().scores.ndim == 2 else "p"

    def result(
        self,
        make: Callable[[pd.DataFrame], Any] = lambda frame: frame,
        back: Any = None,
    ) -> dict[str, Any]:
        """The fit of a frame of some engine, and the first rows calibrated there."""
        frame, rows = self.frame(), self.rows()
        given = {"score": self.score(), "label": "label"} | self.arguments
        applied = {key: given[key] for key in ("score", "by") if key in given}
        with quiet():
            calibrator = fit_frame(make(frame), **given)
            out = apply_frame(make(frame.head(12)), calibrator, **applied)
            out = out if back is None else back(out)
            p = calibrator.predict_proba(rows.probes)
        names = [name for name in out.columns if name.startswith("calibrated")]
        found = {
            "classes": calibrator.classes_,
            "probabilities": p[:, 1] if len(calibrator.classes_) == 2 else p,
            "n_effective": calibrator.n_effective_,
            "edf": calibrator.edf_,
            "applied": {name: out[name].to_numpy() for name in sorted(names)},
        }
        if rows.by is not None:
            found["segments"] = dict(calibrator.segments_)
        return plain(found)


FITS = {
    "weights": FrameFit(of(data.wavy, data.counted), {"weight": "weight"}),
    "binned": FrameFit(lambda: data.wavy(9000), {}),
    "margins": FrameFit(data.margins, {"positive": "no"}),
    "groups": FrameFit(of(data.wavy, data.grouped), {"group": "group"}),
    "by": FrameFit(of(lambda: data.wavy(2000), by_country), {"by": "country"}),
    "by-two-columns": FrameFit(
        of(lambda: data.wavy(2000), by_country_and_device),
        {"by": ["country", "device"]},
    ),
    "structured": FrameFit(data.three, {}),
    "ovr": FrameFit(data.three, {"multiclass": "ovr"}),
}

SUMS = "engines sum in an order of their own"
AREA = Area(
    "frames", {name: Case(fit.result, 1e-9, reason=SUMS) for name, fit in FITS.items()}
)
