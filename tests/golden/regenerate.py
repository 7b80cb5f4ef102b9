"""Update golden files: ``python -m tests.golden.regenerate [AREA ...]``.

Without arguments every area is updated. Only files whose result has changed by more
than the tolerance of their case are written, so that last digits, which differ between
processors, never show up as changes; files without a case are deleted. A fit that
depends on the last bit of its data is refused: it would differ between processors.

The area ``models`` is a saved model of every kind, with what it predicts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from tests.golden import areas
from tests.golden.cases_fits import disturbed
from tests.golden.kinds import MODELS, describe
from tests.golden.record import Area, explain

import calspline

HERE = Path(__file__).parent
MODEL_TOLERANCE = 1e-8
"""Coefficients of the paper's fit differ by 1e-10 between processors. Tests read
stored models and never fit them again, so that this makes no test weaker."""


def update(area: Area) -> None:
    """Write the files of cases that have changed, and delete those without a case."""
    start = time.perf_counter()
    written = 0
    for name in area.cases:
        if area.is_current(name):
            continue
        refuse_unstable(area, name)
        area.write(name)
        written += 1
    wanted = {area.path(name) for name in area.cases}
    for path in set(area.folder.iterdir()) - wanted:
        path.unlink()
    seconds = time.perf_counter() - start
    print(f"{area.name}: {written} of {len(wanted)} cases written, {seconds:.0f} s")


def refuse_unstable(area: Area, name: str) -> None:
    """Exit if a fit depends on the last bits of its data."""
    if area.name != "fits" or (disturbed_result := disturbed(name)) is None:
        return
    report = area.cases[name].explain(disturbed_result, area.result(name))
    if report:
        raise SystemExit(f"fits/{name} depends on the last bit of its data:\n{report}")


def update_models() -> None:
    """Save a model of every kind, with what it predicts, unless the files agree."""
    folder = HERE / "models"
    (folder / "predictions").mkdir(parents=True, exist_ok=True)
    for path in [*folder.glob("*.json"), *folder.glob("predictions/*.json")]:
        if path.stem not in MODELS:
            path.unlink()
    for name, make in MODELS.items():
        model, inputs = make()
        with tempfile.TemporaryDirectory() as scratch:
            saved = Path(scratch) / f"{name}.json"
            calspline.save(model, saved)
            predictions = json.dumps({"inputs": inputs} | describe(model, inputs))
            replace_if_changed(folder / saved.name, saved.read_text())
            replace_if_changed(folder / "predictions" / saved.name, predictions + "\n")


def replace_if_changed(path: Path, text: str) -> None:
    """Write a JSON file unless the stored one agrees with it."""
    if path.exists():
        now, then = json.loads(text), json.loads(path.read_text())
        for content in (now, then):
            content.pop("checksum", None)
        if not explain(now, then, MODEL_TOLERANCE):
            return
    path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Update golden files.")
    parser.add_argument("area", nargs="*", help="default: all")
    chosen = parser.parse_args().area or [*areas.AREAS, "models"]
    for name in chosen:
        if name == "models":
            update_models()
        else:
            update(areas.AREAS[name])


if __name__ == "__main__":
    main()
