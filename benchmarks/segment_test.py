"""Size and power of the test of calibration by segment: ``python -m benchmarks.segment_test``.

Writes ``benchmarks/SEGMENT_TEST.md``. MCGrad's p-value needs ``mcgrad`` (``pip install --no-deps mcgrad psutil``).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mcgrad.metrics import MulticalibrationError  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.tables import table
from calspline import evaluate

HERE = Path(__file__).resolve().parent
REPEATS = {10: 200, 100: 60, 1000: 12}
CASES: dict[str, dict[str, float]] = {
    "right (size)": {},
    "right, rare events (size)": {"mean": -4.0},
    "right, three columns (size)": {"columns": 3},
    "all a little off": {"spread": 0.25},
    "one in ten off by 0.7": {"share": 0.1, "spread": 0.7},
    "slopes differ": {"slope": 0.3},
}
EACH = 50
PAGE = """# The test of calibration by segment

`python -m benchmarks.segment_test` writes this page. How often "every segment is calibrated" is rejected at 5%, in
simulated data of fifty rows a segment on average: `evaluate(y, p, by=...).segments.p_value`, MCGrad 0.1.5's
`MulticalibrationError.mce_pvalue` (the smallest of the segments'; its documentation says that it is not corrected), and
the same corrected for the number of segments (Bonferroni). "false" is the share of segments that are right among those
said to be off, on average; at most 5% is promised. Where all are right, any is false. Repeats: 200, 60 and 12.

"""


def draw(rng: np.random.Generator, n_segments: int, case: dict[str, float]) -> tuple[Any, Any, Any, NDArray[np.bool_]]:
    """Outcomes, probabilities, segments, and which segments are off."""
    n = EACH * n_segments
    by = [rng.integers(0, n_segments, n) for _ in range(int(case.get("columns", 1)))]
    x = rng.normal(case.get("mean", -1.0), 1.0, n)
    off = rng.random(n_segments) < case.get("share", 1.0)
    shift = (
        off
        * case.get("spread", 0.0)
        * (np.sign(rng.normal(size=n_segments)) if "share" in case else rng.normal(size=n_segments))
    )
    slope = case.get("slope", 0.0) * rng.normal(size=n_segments)
    y = rng.random(n) < expit(x + shift[by[0]] + slope[by[0]] * (x - x.mean()))
    wrong = np.zeros(len(by) * n_segments, dtype=bool)
    wrong[:n_segments] = (shift != 0.0) | (slope != 0.0)
    return y, expit(x), by, wrong


def main() -> None:
    """Run all cases and write the page."""
    lines = []
    for name, case in CASES.items():
        for n_segments, repeats in REPEATS.items():
            rng = np.random.default_rng(n_segments)
            found, seconds = [], np.zeros(2)
            for _ in range(repeats):
                y, p, by, wrong = draw(rng, n_segments, case)
                start = time.perf_counter()
                ours = evaluate(y, p, by=by).segments
                middle = time.perf_counter()
                assert ours is not None
                frame = pd.DataFrame({"y": y.astype(int), "p": p} | {f"s{k}": c.astype(str) for k, c in enumerate(by)})
                theirs = MulticalibrationError(
                    frame,
                    "y",
                    "p",
                    categorical_segment_columns=[f"s{k}" for k in range(len(by))],
                    max_depth=1,
                    max_values_per_segment_feature=10**6,
                    precision_dtype="float64",
                ).mce_pvalue
                seconds += middle - start, time.perf_counter() - middle
                false = np.mean([not wrong[i] for i in ours.off]) if ours.off else 0.0
                found.append((ours.p_value < 0.05, theirs < 0.05, theirs * (1 + len(ours)) < 0.05, false))
            shares = [f"{share:.1%}" for share in np.mean(np.array(found, dtype=float), axis=0)]
            lines.append([name, f"{n_segments:,}", *shares, *(f"{s / repeats:.3f}" for s in seconds)])
            print(*lines[-1], flush=True)
    header = ["segments are", "number", "ours", "MCGrad", "MCGrad, corrected", "false", "s", "s MCGrad"]
    (HERE / "SEGMENT_TEST.md").write_text(PAGE + table(header, lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
