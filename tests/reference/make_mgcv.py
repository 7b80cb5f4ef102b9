"""Write ``mgcv.json``, the reference values of R's mgcv.

Run ``python tests/reference/make_mgcv.py``, with R and its package mgcv installed.
"""

from __future__ import annotations

import csv
import json
import runpy
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DIGITS = 10
SHARES = np.linspace(0.005, 0.995, 101)


def main() -> None:
    cases = runpy.run_path(str(HERE / "cases.py"))
    data = {name: cases["generate"](case) for name, case in cases["CASES"].items()}
    at = {
        name: np.round(np.quantile(d.scores, SHARES), DIGITS)
        for name, d in data.items()
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, d in data.items():
            write(folder / f"{name}-fit.csv", score=d.scores, y=d.y)
            write(folder / f"{name}-test.csv", score=d.test_scores)
            write(folder / f"{name}-at.csv", score=at[name])
        subprocess.run(
            ["Rscript", "--vanilla", str(HERE / "mgcv.R"), temporary], check=True
        )
        versions = read(folder / "versions.csv")[0]
        fits = read(folder / "fits.csv")
        found: dict[str, Any] = {}
        for name, d in data.items():
            found[name] = {
                "rows": len(d.y),
                "positives": int(d.y.sum()),
                "test_positives": int(d.test_y.sum()),
                "scores": at[name].tolist(),
                "fits": {
                    fit["k"]: {
                        "test_log_loss": round(
                            cases["log_loss"](
                                column(folder / f"{name}-test-{fit['k']}.csv"), d.test_y
                            ),
                            DIGITS,
                        ),
                        "edf": round(float(fit["edf"]), 4),
                        "p": np.round(
                            column(folder / f"{name}-at-{fit['k']}.csv"), DIGITS
                        ).tolist(),
                    }
                    for fit in fits
                    if fit["name"] == name
                },
            }
    content = {
        "R": versions["R"],
        "mgcv": versions["mgcv"],
        "calls": {fit["k"]: fit["call"] for fit in fits},
        "about": "x is the log-odds of the score; fits are by basis size k; edf includes the intercept",
        "cases": found,
    }
    (HERE / "mgcv.json").write_text(lay_out(content) + "\n", encoding="utf-8")


def write(path: Path, **columns: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(
            [repr(value.item()) for value in row]
            for row in zip(*columns.values(), strict=True)
        )


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def column(path: Path) -> np.ndarray:
    return np.array([float(row["p"]) for row in read(path)])


def lay_out(value: Any, indent: str = "") -> str:
    """JSON with one line to each key, and each list on one line."""
    if not isinstance(value, dict):
        return json.dumps(value)
    inner = indent + " "
    lines = [
        f"{inner}{json.dumps(key)}: {lay_out(item, inner)}"
        for key, item in value.items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


if __name__ == "__main__":
    main()
