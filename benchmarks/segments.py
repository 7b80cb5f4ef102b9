"""Segments whose calibration differs: ``python -m benchmarks.segments``.

Writes ``benchmarks/SEGMENTS.md``: real scores by segment, next to one curve for all, a
curve for each and two libraries; simulated segments with known variances; time and
memory; and R's mgcv on one set. The scores are those of the folder ``segments`` beside
the one that ``CALSPLINE_DATA`` names.
"""

from __future__ import annotations

import argparse
import csv
import resource
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from benchmarks import datasets
from benchmarks.tables import table
from calspline import SplineCalibrator

Array = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
FEWEST = 30
"""Rows that a segment needs for a curve of its own."""
SD = (0.5, 0.2)
"""Standard deviations of intercepts and slopes in the simulations."""
MGCV = """
library(mgcv)
d <- read.csv("rows.csv"); d$segment <- factor(d$segment)
m <- bam(y ~ offset(x) + s(x, bs="cr", k=24) + s(segment, bs="re") + s(segment, z, bs="re"),
         family=binomial, data=d, method="fREML", discrete=FALSE)
held <- bam(y ~ offset(f) + z + s(segment, bs="re") + s(segment, z, bs="re"),
            family=binomial, data=d, method="fREML", discrete=FALSE)
new <- read.csv("new.csv")
both <- sapply(list(m, held), function(model) as.numeric(predict(model, new, type="response")))
write.csv(both, "p.csv", row.names=FALSE)
"""


PAGE = """# Segments

`make bench-segments` writes this page (`python -m benchmarks.segments`). One curve for all rows ("pooled"), a curve
for each segment that has 30 rows and both classes ("separate", the pooled curve for the others), and
`SplineCalibrator().fit(scores, y, by=segment)` ("ours").

## Real scores

Log-loss of the test rows. `@2000`: the first 2,000 calibration rows only. "worse": the share of segments with 30 test
rows or more that have a higher log-loss than with the pooled curve. probcal 0.4.0 (`SegmentedCalibrator`) and MCGrad
0.1.5 (the segment as a categorical feature, defaults) were measured once on the same rows, on another busy core; s are
seconds of a fit, on this page those of a machine with much other work.

<!-- REAL -->

## mgcv

The same model in R's mgcv: log-loss, and the distance of the probabilities from ours. Ours begins with the curve of all
rows, an average that is held back towards the scores as they are; with a given smoothing (that of the average) it is a
plain fit, as mgcv's is. The command:
`bam(y ~ offset(x) + s(x, bs="cr", k=24) + s(segment, bs="re") + s(segment, z, bs="re"), family=binomial, data=d)`,
with `method="fREML"`, `x` the log-odds of the score and `z` the same with mean 0 and variance 1.

Where they differ, it is in the common curve, and not in what segments add to it. Ours keeps the bends of the curve of
all rows unless those of the segments speak against them, mgcv chooses them anew. "Held" is mgcv with our curve:
`y ~ offset(f) + z + s(segment, bs="re") + s(segment, z, bs="re")`, where `f` are the log-odds of our curve of all rows
with the given smoothing.

<!-- MGCV -->

## Simulated segments

Log-odds that are off by an intercept and a slope, with standard deviations of 0.5 and 0.2 between segments: what was
found (and what was drawn), how often 95% limits of a segment hold the truth, log-loss of the truth, of ours, of the
pooled curve and of ours for rows whose segment is not known; seconds of the fit, and peak memory of the process.

<!-- SIMULATED -->

## Many rows, many segments

Seconds of the processor. "A fit of each" is a loop over segments that share nothing.

<!-- SCALE -->
"""


class Setting(NamedTuple):
    """Scores, labels and segments, to fit and to judge."""

    scores: Array
    y: NDArray[np.bool_]
    segment: NDArray[np.int64]
    new: Array
    y_new: NDArray[np.bool_]
    segment_new: NDArray[np.int64]


def log_loss(y: NDArray[np.bool_], p: Array) -> float:
    """Mean log-loss; probabilities are clipped as the peers' were."""
    p = np.clip(p, 1e-9, 1.0 - 1e-9)
    return float(-np.where(y, np.log(p), np.log1p(-p)).mean())


def real(name: str) -> Setting:
    """A setting of the shared folder; ``@2000`` are its first 2,000 calibration rows."""
    stem, _, rows = name.partition("@")
    data = np.load(datasets.folder().parent / "segments" / f"{stem}.npz")
    n = int(rows) if rows else None
    return Setting(
        data["scores_cal"][:n].astype(float),
        data["y_cal"][:n] == 1,
        data["segment_cal"][:n],
        data["scores_test"].astype(float),
        data["y_test"] == 1,
        data["segment_test"],
    )


def simulated(S: int, rows: int, seed: int = 0) -> tuple[Setting, Array]:
    """Segments of as many rows whose intercepts and slopes are off by known spreads, and their effects."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(size=(S, 2)) * SD
    segment = np.repeat(np.arange(S), rows)

    def draw(segment: NDArray[np.int64]) -> tuple[Array, NDArray[np.bool_]]:
        x = rng.normal(0.0, 1.3, len(segment))
        p = expit(x + effects[segment, 0] + effects[segment, 1] * x / 1.3)
        return expit(x), rng.random(len(segment)) < p

    few = rng.integers(0, S, min(len(segment), 200_000))
    return Setting(*draw(segment), segment, *draw(few), few), effects


def separate(setting: Setting, pooled: Array) -> Array:
    """A curve for each segment that has enough rows and both classes; the pooled curve for the others."""
    out = pooled.copy()
    for s in np.unique(setting.segment):
        own = setting.segment == s
        if own.sum() >= FEWEST and 0 < setting.y[own].sum() < own.sum():
            there = setting.segment_new == s
            if there.any():
                out[there] = (
                    SplineCalibrator()
                    .fit(setting.scores[own], setting.y[own])
                    .calibrate(setting.new[there])
                )
    return out


def made_worse(setting: Setting, ours: Array, pooled: Array) -> float:
    """Share of the segments with 30 test rows or more whose log-loss is above that of the pooled curve."""
    worse = []
    for s in np.unique(setting.segment_new):
        own = setting.segment_new == s
        if own.sum() >= FEWEST:
            worse.append(
                log_loss(setting.y_new[own], ours[own])
                > log_loss(setting.y_new[own], pooled[own])
            )
    return float(np.mean(worse))


def real_table() -> Iterator[str]:
    """Every shared setting."""
    with (datasets.folder().parent / "segments" / "peers.csv").open() as file:
        peers = {row["name"]: row for row in csv.DictReader(file)}
    rows, sums = [], []
    for name, peer in peers.items():
        setting = real(name)
        pooled = (
            SplineCalibrator().fit(setting.scores, setting.y).calibrate(setting.new)
        )
        start = time.perf_counter()
        cal = SplineCalibrator().fit(setting.scores, setting.y, by=setting.segment)
        seconds = time.perf_counter() - start
        ours = cal.calibrate(setting.new, by=setting.segment_new)
        losses = [
            log_loss(setting.y_new, setting.new),
            log_loss(setting.y_new, pooled),
            log_loss(setting.y_new, separate(setting, pooled)),
            float(peer["probcal"]),
            float(peer["mcgrad"]),
            log_loss(setting.y_new, ours),
        ]
        sums.append(losses)
        times = [
            f"{seconds:.2f}",
            f"{float(peer['t_probcal']):.2f}",
            f"{float(peer['t_mcgrad']):.2f}",
        ]
        worse = f"{made_worse(setting, ours, pooled):.0%}"
        print(name, np.round(losses, 5), times, worse, flush=True)
        segments = str(len(np.unique(setting.segment)))
        rows.append(
            [name, segments, *(f"{loss:.5f}" for loss in losses), worse, *times]
        )
    rows.append(
        [
            "**mean**",
            "",
            *(f"**{loss:.5f}**" for loss in np.mean(sums, axis=0)),
            "",
            "",
            "",
            "",
        ]
    )
    header = [
        "setting",
        "segments",
        "raw",
        "pooled",
        "separate",
        "probcal",
        "MCGrad",
        "ours",
        "worse",
    ]
    yield table([*header, "s", "s probcal", "s MCGrad"], rows)


def coverage(cal: SplineCalibrator, effects: Array, rng: np.random.Generator) -> float:
    """How often the 95% limits of a segment hold the truth, over segments and scores."""
    some = rng.choice(len(effects), min(len(effects), 200), replace=False)
    x = np.linspace(-2.5, 2.5, 21)
    true = expit(x + effects[some, :1] + effects[some, 1:] * x / 1.3)
    low, high = cal.interval(
        np.tile(expit(x), len(some)), by=np.repeat(some, len(x))
    ).T.reshape(2, len(some), -1)
    return float(((low <= true) & (true <= high)).mean())


def simulated_table(sizes: list[tuple[int, int]]) -> Iterator[str]:
    """Known variances: whether they are found, the limits hold, and segments never seen are served."""
    rng = np.random.default_rng(1)
    rows = []
    for S, n in sizes:
        setting, effects = simulated(S, n)
        start = time.perf_counter()
        cal = SplineCalibrator().fit(setting.scores, setting.y, by=setting.segment)
        seconds = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        pooled = SplineCalibrator().fit(setting.scores, setting.y)
        x = logit(setting.new)
        true = expit(
            x
            + effects[setting.segment_new, 0]
            + effects[setting.segment_new, 1] * x / 1.3
        )
        column = cal.model_.segment_columns[0]
        spread = np.sqrt(np.append(column.spread, [0.0, 0.0])[:2]) * [
            1.0,
            1.3 * column.slope_unit,
        ]
        losses = [
            log_loss(setting.y_new, q)
            for q in (
                true,
                cal.calibrate(setting.new, by=setting.segment_new),
                pooled.calibrate(setting.new),
                cal.calibrate(setting.new),
            )
        ]
        drawn = effects.std(axis=0)
        found = [
            f"{spread[0]:.3f} ({drawn[0]:.3f})",
            f"{spread[1]:.3f} ({drawn[1]:.3f})",
        ]
        rows.append(
            [f"{S:,}", f"{n:,}", *found, f"{coverage(cal, effects, rng):.1%}"]
            + [f"{loss:.4f}" for loss in losses]
            + [f"{seconds:.1f}", f"{memory:.2f}"]
        )
        print(rows[-1], flush=True)
    header = [
        "segments",
        "rows each",
        "intercepts",
        "slopes",
        "coverage",
        "truth",
        "ours",
        "pooled",
        "as new",
        "s",
        "GB",
    ]
    yield table(header, rows)


def scale_table() -> Iterator[str]:
    """A thousand segments next to the pooled fit of the same rows, and next to a fit of each: best in turn."""
    rows = []
    for each, rounds in ((1000, 9), (200, 3)):
        setting, _ = simulated(1000, each)
        seconds: dict[str, float] = {}
        for _ in range(rounds):
            for name, fit in (
                ("pooled", fit_pooled),
                ("by segment", fit_together),
                ("a fit of each", fit_each),
            ):
                start = time.process_time()
                fit(setting)
                seconds[name] = min(
                    time.process_time() - start, seconds.get(name, np.inf)
                )
        shares = [
            seconds["by segment"] / seconds[name]
            for name in ("pooled", "a fit of each")
        ]
        rows.append(
            [
                f"1,000 x {each:,}",
                *(f"{least:.3f}" for least in seconds.values()),
                f"{shares[0]:.1f}",
                f"{shares[1]:.3f}",
            ]
        )
        print(rows[-1], flush=True)
    yield table(
        [
            "segments x rows",
            *seconds,
            "by segment / pooled",
            "by segment / a fit of each",
        ],
        rows,
    )


def fit_pooled(setting: Setting) -> None:
    """One curve."""
    SplineCalibrator().fit(setting.scores, setting.y)


def fit_together(setting: Setting) -> None:
    """All segments at once."""
    SplineCalibrator().fit(setting.scores, setting.y, by=setting.segment)


def fit_each(setting: Setting) -> None:
    """A loop of fits, in which segments share nothing."""
    order = np.argsort(setting.segment, kind="stable")
    for part in np.split(order, np.cumsum(np.bincount(setting.segment))[:-1]):
        SplineCalibrator().fit(setting.scores[part], setting.y[part])


def mgcv_table(names: list[str]) -> Iterator[str]:
    """The same model in R's mgcv, intercepts and slopes only."""
    if shutil.which("Rscript") is None:
        yield "R is not there."
        return
    rows = []
    for name in names:
        setting = real(name)
        x, new = (
            logit(np.clip(p, 1e-9, 1.0 - 1e-9)) for p in (setting.scores, setting.new)
        )
        z, z_new = ((values - x.mean()) / x.std() for values in (x, new))
        known = np.isin(setting.segment_new, setting.segment)
        smoothing = (
            SplineCalibrator(monotone=False).fit(setting.scores, setting.y).smoothing_
        )
        common = SplineCalibrator(monotone=False, smoothing=smoothing).fit(
            setting.scores, setting.y
        )
        f, f_new = (
            logit(common.calibrate(scores)) for scores in (setting.scores, setting.new)
        )
        with tempfile.TemporaryDirectory() as folder:
            table_in = np.column_stack([x, z, f, setting.segment, setting.y])
            np.savetxt(
                Path(folder) / "rows.csv",
                table_in,
                delimiter=",",
                header="x,z,f,segment,y",
                comments="",
            )
            table_in = np.column_stack([new, z_new, f_new, setting.segment_new])[known]
            np.savetxt(
                Path(folder) / "new.csv",
                table_in,
                delimiter=",",
                header="x,z,f,segment",
                comments="",
            )
            start = time.perf_counter()
            subprocess.run(
                ["Rscript", "-e", MGCV], cwd=folder, check=True, capture_output=True
            )
            seconds = time.perf_counter() - start
            theirs, held = np.loadtxt(
                Path(folder) / "p.csv", skiprows=1, delimiter=","
            ).T
        y, row = setting.y_new[known], [name]
        for given in ("reml", smoothing):
            cal = SplineCalibrator(monotone=False, smoothing=given).fit(
                setting.scores, setting.y, by=setting.segment
            )
            p = cal.calibrate(setting.new[known], by=setting.segment_new[known])
            row += [f"{log_loss(y, p):.5f}", f"{np.median(np.abs(p - theirs)):.5f}"]
        row += [f"{log_loss(y, theirs):.5f}", f"{seconds:.1f}"]
        rows.append(
            [
                *row,
                f"{np.median(np.abs(p - held)):.5f}",
                f"{np.median(np.abs(theirs - held)):.5f}",
            ]
        )
        print(rows[-1], flush=True)
    header = [
        "setting",
        "ours",
        "median distance",
        "ours, given smoothing",
        "median distance",
        "mgcv",
        "s mgcv",
    ]
    yield table([*header, "ours to mgcv held", "mgcv to mgcv held"], rows)


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="leave out the large simulations"
    )
    quick = parser.parse_args().quick
    warnings.filterwarnings("ignore", message=".*segments that the fit has not seen")
    sizes = [(10, 1000), (100, 200), (1000, 100), (10_000, 20), (100_000, 10)]
    page = PAGE
    parts: dict[str, Any] = {
        "REAL": real_table(),
        "MGCV": mgcv_table(
            ["adult__occupation__hgb", "flights__dest__hgb", "flights_c__carrier__lr"]
        ),
        "SCALE": scale_table(),
        "SIMULATED": simulated_table(sizes[:3] if quick else sizes),
    }
    for name, lines in parts.items():
        page = page.replace(f"<!-- {name} -->", "\n".join(lines))
    (HERE / "SEGMENTS.md").write_text(page)


if __name__ == "__main__":
    main()
