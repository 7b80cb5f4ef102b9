"""Write golden files anew: ``python -m tests.golden.regenerate [AREA ...]``.

Without arguments every area is written, and files without a case are deleted. A fit
that hangs on the last bit of its data is refused: it would differ between processors.

The area ``models`` is a saved model of every kind, with what it predicts.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tests.golden import areas
from tests.golden.cases_fits import disturbed
from tests.golden.kinds import MODELS, describe
from tests.golden.record import Area

import calspline

HERE = Path(__file__).parent


def write(area: Area) -> None:
    """Write the file of each case, and delete those of cases that are no more."""
    start = time.perf_counter()
    for name, case in area.cases.items():
        if area.name == "fits" and (moved := disturbed(name)) is not None:
            report = case.explain(moved, area.result(name))
            if report:
                raise SystemExit(
                    f"fits/{name} hangs on the last bit of its data:\n{report}"
                )
        area.write(name)
    wanted = {area.path(name) for name in area.cases}
    for path in set(area.folder.iterdir()) - wanted:
        path.unlink()
    print(f"{area.name}: {len(wanted)} cases, {time.perf_counter() - start:.0f} s")


def write_models() -> None:
    """Save a model of every kind, with what it predicts."""
    folder = HERE / "models"
    predictions = folder / "predictions"
    predictions.mkdir(parents=True, exist_ok=True)
    for path in [*folder.glob("*.json"), *predictions.glob("*.json")]:
        path.unlink()
    for name, make in MODELS.items():
        model, inputs = make()
        calspline.save(model, folder / f"{name}.json")
        answers = {"inputs": inputs} | describe(model, inputs)
        (predictions / f"{name}.json").write_text(json.dumps(answers) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write golden files anew.")
    parser.add_argument("area", nargs="*", help="default: all")
    chosen = parser.parse_args().area or [*areas.AREAS, "models"]
    for name in chosen:
        if name == "models":
            write_models()
        else:
            write(areas.AREAS[name])


if __name__ == "__main__":
    main()
