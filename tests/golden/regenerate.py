"""Write the golden files anew: ``python -m tests.golden.regenerate curves`` or ``... models``.

``curves`` fits every case and keeps its curve. It refuses a case whose curve hangs on the last bit
of the data: such a case would differ between versions of numpy, and say nothing.

``models`` saves a model of every kind under the present version. It never touches those of earlier versions. Kinds
that came after the present version go to ``unreleased``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from random import Random

import numpy as np
from tests.golden.cases import CASES
from tests.golden.kinds import MODELS, describe

import calspline

HERE = Path(__file__).parent
CURVES = HERE / "curves.json"
STEADY = 1e-10
"""Most that a curve may move, in probability, when every score moves by its last bit and the rows are shuffled."""


def fitted(name, *, disturbed=False):
    """What is kept of a case."""
    make_rows, make = CASES[name]
    rows = make_rows()
    scores, y, weight = np.array(rows.scores), rows.y, rows.weight
    if disturbed:
        order = np.arange(len(y))
        Random(0).shuffle(order)
        inside = 0.5 if np.all((scores >= 0) & (scores <= 1)) else 0.0
        scores = np.where((scores == 0) | (scores == 1), scores, np.nextafter(scores, inside))[order]
        y, weight = y[order], None if weight is None else weight[order]
    cal = make().fit(scores, y, weight)
    kept = {"probabilities": np.round(cal.predict_proba(rows.grid)[:, 1:], 13).tolist()}
    if getattr(cal, "curves_", None) and len(cal.classes_) == 2 and cal.curves_[0].has_band:
        kept["interval"] = np.round(cal.interval(rows.grid), 13).tolist()
    if hasattr(cal, "edf_"):
        kept["smoothing"], kept["edf"] = np.ravel(cal.smoothing_).tolist(), np.ravel(cal.edf_).tolist()
    return kept


def write_curves():
    """Fit every case and keep the curves."""
    kept = {}
    for name in CASES:
        kept[name] = fitted(name)
        moved = np.subtract(fitted(name, disturbed=True)["probabilities"], kept[name]["probabilities"])
        if np.abs(moved).max() > STEADY:
            raise SystemExit(f"{name!r} is not steady: it moves by {np.abs(moved).max():.1g} with the last bit")
        print(f"{name}: steady to {np.abs(moved).max():.1g}")
    CURVES.write_text(json.dumps(kept, indent=0) + "\n")


def write_models():
    """Save a model of every kind, with what it predicts, under the present version."""
    folder = HERE / "models" / calspline.__version__
    kinds = dict(MODELS)
    if folder.exists():  # a file once released is never changed
        kinds = {name: make for name, make in MODELS.items() if not (folder / f"{name}.json").exists()}
        folder = folder.with_name("unreleased")
    folder.mkdir(exist_ok=True)
    predictions = {}
    for name, make in kinds.items():
        model, inputs = make()
        calspline.save(model, folder / f"{name}.json")
        predictions[name] = {"inputs": inputs} | describe(model, inputs)
    (folder / "predictions").mkdir(exist_ok=True)
    for name, prediction in predictions.items():
        (folder / "predictions" / f"{name}.json").write_text(json.dumps(prediction) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the golden files anew.")
    parser.add_argument("what", choices=["curves", "models"])
    {"curves": write_curves, "models": write_models}[parser.parse_args().what]()
