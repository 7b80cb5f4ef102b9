"""Section 4.1 of the paper, a random forest that predicts deaths: ``python -m benchmarks.paper.mortality``.

The paper's MIMIC-III may not be passed on; GUSTO-I and SUPPORT2 take its place. Writes
``MORTALITY.md`` and ``mortality.png`` beside this file. Needs both data sets, see
:mod:`benchmarks.datasets`; keeps the forests' votes in the folder ``CALSPLINE_CACHE``,
or ``~/.cache/calspline``, and does not grow again those that it finds there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from benchmarks import datasets
from benchmarks.paper import cache
from benchmarks.paper.judge import Judged, Scores, as_table, judge_all
from benchmarks.paper.progress import Progress
from calspline import IsotonicCalibrator

RESULT = Path(__file__).with_name("MORTALITY.md")
TREES = 1000
SPLITS = 3
ISOTONIC, RAW = "isotonic regression", "uncalibrated"


class Study(NamedTuple):
    """A data set: its name, for files and for readers, and how to load it."""

    key: str
    title: str
    load: Callable[[], tuple[Any, Any]]


STUDIES = [
    Study(
        "gusto", "GUSTO-I: death within 30 days of a heart attack", datasets.load_gusto
    ),
    Study(
        "support2",
        "SUPPORT2: death in hospital of the seriously ill",
        datasets.load_support2,
    ),
]


def scores(study: Study, split: int, trees: int) -> Scores:
    """Votes of a forest grown on 60% of the rows, for 20% to calibrate with and 20% to judge on."""
    X, y = study.load()
    fit_X, rest_X, fit_y, rest_y = train_test_split(
        X, y, test_size=0.4, random_state=split
    )
    cal_X, test_X, cal_y, test_y = train_test_split(
        rest_X, rest_y, test_size=0.5, random_state=split
    )
    words = list(X.select_dtypes(exclude="number"))
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), words), remainder="passthrough"
    )
    # Grown to the end, a tree says 0 or 1 of all but patients alike in every column:
    # the mean is the share of votes.
    forest = RandomForestClassifier(trees, random_state=split, n_jobs=-1)
    model: Any = make_pipeline(columns, forest).fit(fit_X, fit_y)
    return Scores(
        model.predict_proba(cal_X), cal_y, model.predict_proba(test_X), test_y
    )


def votes(study: Study, split: int, trees: int) -> tuple[Scores, bool]:
    """Those scores, and whether they were in the cache."""
    name = f"mortality/{study.key}-{trees}-trees-split-{split}"
    cached = cache.has(name)
    return Scores(
        **cache.kept(name, lambda: scores(study, split, trees)._asdict())
    ), cached


def account(runs: list[dict[str, Judged]], every: list[Scores]) -> str:
    """What isotonic regression does to the votes, and what it costs."""
    differences = np.array([run[ISOTONIC].loss - run[RAW].loss for run in runs])
    worse = int((differences > 0.0).sum())
    if worse == 0:
        return "Isotonic regression improves on the raw votes in every split; in the paper it is worse than nothing.\n"
    hopeless = [_hopeless(one) for one in every]
    often = "all" if worse == len(runs) else f"{worse} of"
    return (
        f"As in the paper, isotonic regression is worse than nothing on forest votes: in {often} {len(runs)} splits, "
        f"by {differences.mean():+.4f} on average. It says 0 or 1 (clipped at 1e-15 here) wherever its first or last "
        f"step holds one class alone; {', '.join(map(str, hopeless))} test rows got such a probability for what then "
        "happened, and each costs 34.5 nats.\n"
    )


def _hopeless(one: Scores) -> int:
    p = IsotonicCalibrator().fit(one.fit_p, one.fit_y).predict_proba(one.test_p)
    return int((p[np.arange(len(p)), one.test_y] < 1e-12).sum())


def main() -> int:
    """Grow the forests, judge, write the page and draw the figure."""
    cli = argparse.ArgumentParser(
        prog="python -m benchmarks.paper.mortality", description=__doc__
    )
    cli.add_argument("--trees", type=int, default=TREES)
    cli.add_argument("--splits", type=int, default=SPLITS)
    cli.add_argument(
        "--output",
        type=Path,
        default=RESULT,
        help="the page; the figure goes beside it",
    )
    args = cli.parse_args()
    try:
        sizes = {study.key: study.load()[1] for study in STUDIES}
    except FileNotFoundError as reason:
        print(f"GUSTO-I and SUPPORT2 are needed: {reason}", file=sys.stderr)
        return 1
    progress = Progress(len(STUDIES) * args.splits)
    parts = [
        "# Forests that predict deaths (section 4.1 and table 1 of the paper)",
        f"`python -m benchmarks.paper.mortality`: a random forest of {args.trees:,} trees grown on 60% of the rows, "
        "calibrated on 20%, judged on 20%; mean and standard deviation over "
        f"{args.splits} random splits. The paper's column is of MIMIC-III, which may not be passed on: compare the "
        "order of its rows, not the numbers.",
        "![Reliability and calibration functions](mortality.png)",
        f"{STUDIES[0].title}, the first split.",
    ]
    for study in STUDIES:
        runs, every = [], []
        for split in range(args.splits):
            found, cached = votes(study, split, args.trees)
            every.append(found)
            runs.append(judge_all(found))
            progress.step(f"{study.key}, split {split + 1}", cached=cached)
        y = sizes[study.key]
        parts += [
            f"## {study.title}",
            f"{len(y):,} rows, {y.mean():.1%} deaths.",
            as_table(runs, "mimic", "log-loss, paper (MIMIC-III)"),
            account(runs, every).rstrip(),
        ]
        if study is STUDIES[0]:
            from benchmarks.paper.picture import draw

            draw(every[0]).savefig(args.output.with_name("mortality.png"))
    text = "\n\n".join(parts) + "\n"
    args.output.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
