"""Size and power of the test of calibration by segment, next to MCGrad's: ``python -m benchmarks.segment_test``.

Writes ``SEGMENT_TEST.md`` beside this file. MCGrad is not in the extra: ``pip install
--no-deps mcgrad psutil``.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.tables import table
from calspline import evaluate

RESULT = Path(__file__).with_name("SEGMENT_TEST.md")
LEVEL = 0.05
EACH = 50
"""Rows of a segment, on average."""
SIZE = {10: (5000, 200), 100: (300, 60), 1000: (150, 8)}
POWER = {10: (100, 100), 100: (50, 50), 1000: (20, 8)}
"""Draws by number of segments, for ours and the first of them for MCGrad, which needs seconds for 1,000 segments."""
CASES: dict[str, dict[str, float]] = {
    "right": {},
    "right, 3% events": {"mean": -4.0},
    "right, three columns": {"columns": 3},
    "all off by 0.25 or so": {"spread": 0.25},
    "all of one column in three off by 0.25 or so": {"spread": 0.25, "columns": 3},
    "one in ten off by 0.7": {"spread": 0.7, "share": 0.1},
    "slopes off by 0.3 or so": {"slope": 0.3},
}
"""What log-odds are off by: in a share of the segments by a fixed amount up or down, else by a normal one."""
PAGE = f"""# The test of calibration by segment

`make bench-segment-test` (`python -m benchmarks.segment_test`, some hours) writes this page. How often "every segment
is calibrated" is rejected at {LEVEL:.0%}, in simulated rows, {EACH} for a segment on average: by
`evaluate(y, p, by=...).segments.p_value`, by MCGrad 0.1.5's `MulticalibrationError.mce_pvalue` (the smallest of its
segments', which its documentation calls uncorrected), and by the same times the number of segments (Bonferroni). Where
segments are right this should be {LEVEL:.0%} or less, elsewhere as often as possible. With three columns every row is
in three segments, and there are three times as many.

"false" is the share of those that `segments.miscalibrated` names though they are right, on average over the draws; {LEVEL:.0%} is
promised. Draws are of ours and of MCGrad; a share of 5% is uncertain by 0.6 points (95%) with 5,000, by 3.5 with 150.
s are seconds of a test on a busy core.

"""


def draw(
    rng: np.random.Generator, n_segments: int, case: dict[str, float]
) -> tuple[
    NDArray[np.bool_], NDArray[np.float64], list[NDArray[np.int64]], NDArray[np.bool_]
]:
    """Outcomes, probabilities, columns of segments, and which segments are off: some of the first column."""
    n, columns = EACH * n_segments, int(case.get("columns", 1))
    by = [rng.integers(0, n_segments, n) for _ in range(columns)]
    x = rng.normal(case.get("mean", -1.0), 1.0, n)
    size = rng.normal(size=(2, n_segments))
    shift = case.get("spread", 0.0) * size[0]
    if "share" in case:
        shift = (
            case["spread"] * np.sign(size[0]) * (rng.random(n_segments) < case["share"])
        )
    slope = case.get("slope", 0.0) * size[1]
    y = rng.random(n) < expit(x + shift[by[0]] + slope[by[0]] * (x - x.mean()))
    off = np.append(
        (shift != 0.0) | (slope != 0.0),
        np.zeros((columns - 1) * n_segments, dtype=bool),
    )
    return y, expit(x), by, off


def mcgrad(
    y: NDArray[np.bool_], p: NDArray[np.float64], by: list[NDArray[np.int64]]
) -> float:
    """Its p-value, for all segments of each column."""
    from mcgrad.metrics import MulticalibrationError  # type: ignore[import-not-found]

    names = [f"s{k}" for k in range(len(by))]
    frame = pd.DataFrame(
        {"y": y.astype(int), "p": p}
        | dict(zip(names, [c.astype(str) for c in by], strict=True))
    )
    options = {
        "max_depth": 1,
        "max_values_per_segment_feature": 10**6,
        "precision_dtype": "float64",
    }
    return float(
        MulticalibrationError(
            frame, "y", "p", categorical_segment_columns=names, **options
        ).mce_pvalue
    )


def line(name: str, n_segments: int) -> list[str]:
    """How often each test rejects in a case."""
    case = CASES[name]
    draws, theirs = (SIZE if name.startswith("right") else POWER)[n_segments]
    rng = np.random.default_rng(n_segments)
    ours, false, other, seconds = [], [], [], np.zeros(2)
    for k in range(draws):
        y, p, by, off = draw(rng, n_segments, case)
        start = time.perf_counter()
        found = evaluate(y, p, by=by).segments
        seconds[0] += time.perf_counter() - start
        assert found is not None
        ours.append(found.p_value < LEVEL)
        false.append(
            float(np.mean(~off[found.miscalibrated])) if found.miscalibrated else 0.0
        )
        if k < theirs:
            start = time.perf_counter()
            p_value = mcgrad(y, p, by)
            seconds[1] += time.perf_counter() - start
            other.append((p_value < LEVEL, p_value * len(off) < LEVEL))
    shares = [np.mean(ours), *np.mean(other, axis=0), np.mean(false)]
    times = seconds / [draws, theirs]
    cells = [*(f"{share:.1%}" for share in shares), *(f"{each:.3f}" for each in times)]
    return [name, f"{n_segments:,}", f"{draws}, {theirs}", *cells]


def main() -> None:
    """Run all cases and write the page."""
    header = [
        "segments are",
        "number",
        "draws",
        "ours",
        "MCGrad",
        "times number",
        "false",
        "s",
        "s MCGrad",
    ]
    lines = []
    for name in CASES:
        for n_segments in SIZE:
            lines.append(line(name, n_segments))
            print(*lines[-1], flush=True)
    RESULT.write_text(PAGE + table(header, lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
