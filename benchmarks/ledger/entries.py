"""What is measured, and against what.

A line of ``ENTRIES`` has a name and a function that makes data and returns two calls,
ours and the alternative. To add an entry, write such a function, with imports inside,
and its line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import calspline
from benchmarks.frames import write_rows
from benchmarks.ledger.measure import Call
from benchmarks.multiclass import data as multiclass
from benchmarks.speed import data as binary
from calspline import SplineCalibrator, TemperatureCalibrator

Pair = tuple[Call, Call]
MILLION = 1_000_000
PLACE = tempfile.TemporaryDirectory()
FOLDER = Path(PLACE.name)
"""Files of this run; they go with it."""
PASSES = 20
"""Softmaxes of the same array that a fit of several classes is compared with."""
SEGMENTS = 1000


@cache
def rows(n: int, variant: binary.Variant = "smooth") -> binary.Data:
    return binary.make(n, variant)


@cache
def matrix(n: int, m: int) -> multiclass.Rows:
    return multiclass.make(n, m)


@cache
def fitted(n: int = 10_000) -> SplineCalibrator:
    return SplineCalibrator().fit(*rows(n))


def fit(n: int, other: str, variant: binary.Variant = "smooth") -> Pair:
    p, y = rows(n, variant)
    return lambda: SplineCalibrator().fit(p, y), partial(fit_peer, other, p, y)


def fit_peer(name: str, p: Any, y: Any) -> Any:
    """Isotonic regression of scikit-learn, or its Platt scaling."""
    from sklearn.calibration import _SigmoidCalibration
    from sklearn.isotonic import IsotonicRegression

    peer = (
        IsotonicRegression(out_of_bounds="clip")
        if name == "isotonic"
        else _SigmoidCalibration()
    )
    return peer.fit(p, y)


def calibrate(n: int) -> Pair:
    calibrator, peer = fitted(), fit_peer("isotonic", *rows(10_000))
    p = rows(max(n, 1000)).p[:n]
    return lambda: calibrator.calibrate(p), lambda: peer.predict(p)


def interval() -> Pair:
    calibrator, p = fitted(), rows(10_000).p
    return lambda: calibrator.interval(p), lambda: calibrator.calibrate(p)


def segments(*, predict: bool = False) -> Pair:
    """A thousand segments, next to one curve for all rows."""
    p, y = rows(100_000)
    by = np.random.default_rng(0).integers(0, SEGMENTS, len(p))
    if predict:
        with_segments = SplineCalibrator().fit(p, y, by=by)
        pooled = SplineCalibrator().fit(p, y)
        return lambda: with_segments.calibrate(p, by=by), lambda: pooled.calibrate(p)
    return lambda: SplineCalibrator().fit(p, y, by=by), lambda: SplineCalibrator().fit(
        p, y
    )


def two_columns() -> Pair:
    """Two columns of 30 and 20 segments, next to one curve for all rows."""
    p, y = rows(3000)
    rng = np.random.default_rng(0)
    by = [rng.integers(0, size, len(p)) for size in (30, 20)]
    return lambda: SplineCalibrator().fit(p, y, by=by), lambda: SplineCalibrator().fit(
        p, y
    )


def one_vs_rest() -> Pair:
    """A curve for each class in one fit, and in as many fits."""
    p, y = matrix(5000, 100)

    def loop() -> None:
        for j in range(p.shape[1]):
            SplineCalibrator().fit(p[:, j], y == j)

    return lambda: SplineCalibrator(multiclass="ovr").fit(p, y), loop


def groups() -> Pair:
    p, y = rows(100_000)
    of = np.arange(len(p)) // 5
    return lambda: SplineCalibrator().fit(
        p, y, groups=of
    ), lambda: SplineCalibrator().fit(p, y)


def structured(n: int, m: int, **options: Any) -> Pair:
    p, y = matrix(n, m)
    return lambda: SplineCalibrator(**options).fit(p, y), partial(softmaxes, p)


def softmaxes(p: Any) -> None:
    for _ in range(PASSES):
        multiclass.softmax(p)


def temperature(n: int, m: int) -> Pair:
    p, y = matrix(n, m)
    return lambda: TemperatureCalibrator().fit(p, y), partial(softmaxes, p)


def predict_classes(n: int, m: int, **options: Any) -> Pair:
    calibrator = SplineCalibrator(**options).fit(*matrix(2000, m))
    p = matrix(n, m).p
    return lambda: calibrator.predict_proba(p), lambda: multiclass.softmax(p)


def judge_many_rows() -> Pair:
    """All numbers of an evaluation of a million rows, next to a fit to them."""
    from calspline import evaluate

    p, y = rows(MILLION)
    return lambda: evaluate(y, p).to_dict(), lambda: SplineCalibrator().fit(p, y)


def judge_many_classes() -> Pair:
    """A report on 1,000 classes, next to a fit to them."""
    from calspline import report

    p, y = matrix(10_000, 1000)
    return lambda: report(y, p), lambda: SplineCalibrator().fit(p, y)


def judge(what: str) -> Pair:
    """An evaluation or a report of 10,000 rows, next to a fit to them."""
    from calspline import compare, evaluate, report

    p, y = rows(10_000)
    better = fitted().calibrate(p)
    sets = {"raw": p, "calibrated": better}
    calls: dict[str, Call] = {
        "evaluate": lambda: evaluate(y, p).to_dict(),
        "print": lambda: str(evaluate(y, p)),
        "compare": lambda: compare(y, sets),
        "report": lambda: report(path=None, y=y, predictions=sets),
    }
    return calls[what], lambda: SplineCalibrator().fit(p, y)


def classifier() -> Pair:
    """Naive Bayes in five folds, ours next to that of scikit-learn."""
    from sklearn.calibration import CalibratedClassifierCV as Theirs
    from sklearn.naive_bayes import GaussianNB

    from calspline import CalibratedClassifierCV as Ours

    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 20))
    y = (X[:, 0] + rng.normal(size=5000) > 0.0).astype(int)
    theirs = Theirs(GaussianNB(), method="isotonic", cv=5, ensemble=False)
    return lambda: Ours(GaussianNB(), cv=5).fit(X, y), lambda: theirs.fit(X, y)


def saved() -> Pair:
    """Saving and loading a model, next to writing and reading the same text as JSON."""
    import json

    from calspline import load, save

    path = FOLDER / "model.json"
    calibrator = fitted()
    save(calibrator, path)
    content = json.loads(path.read_text())

    def ours() -> None:
        save(calibrator, path)
        load(path)

    def other() -> None:
        path.write_text(json.dumps(content))
        json.loads(path.read_text())

    return ours, other


@cache
def parquet() -> str:
    """A million scores and labels in a file."""
    path = FOLDER / "rows.parquet"
    write_rows(path, MILLION)
    return str(path)


AGGREGATION = """
SELECT floor(1000 * score) AS cell, label, count(*), sum(score) FROM rows GROUP BY ALL
"""


def duckdb_frame(what: str) -> Pair:
    """In DuckDB: a fit next to an aggregation, calibration next to log-odds."""
    import duckdb

    from calspline import apply_frame, fit_frame

    connection = duckdb.connect(config={"threads": 1})
    connection.sql(f"CREATE TABLE rows AS SELECT * FROM '{parquet()}'")
    frame = connection.table("rows")
    if what == "fit":
        aggregation = connection.sql(AGGREGATION)
        return lambda: fit_frame(
            frame, score="score", label="label"
        ), aggregation.fetchall
    calibrator = fit_frame(frame, score="score", label="label")
    applied = apply_frame(frame, calibrator, score="score").sum("calibrated")
    log_odds = connection.sql("SELECT sum(ln(score / (1 - score))) FROM rows")
    return applied.fetchall, log_odds.fetchall


def polars_frame(what: str) -> Pair:
    """The same in polars, from memory."""
    import polars as pl

    from calspline import apply_frame, fit_frame

    frame = pl.read_parquet(parquet())
    score = pl.col("score")
    if what == "fit":
        cells = (
            frame.lazy()
            .group_by((1000 * score).floor(), "label")
            .agg(score.sum(), pl.len())
        )
        return lambda: fit_frame(frame, score="score", label="label"), cells.collect
    calibrator = fit_frame(frame, score="score", label="label")
    log_odds = frame.lazy().select((score / (1 - score)).log().sum())
    return lambda: apply_frame(frame, calibrator, score="score"), log_odds.collect


def torch_module(n: int, m: int) -> Pair:
    """A module next to a softmax of the same tensor."""
    import torch

    from calspline.export import to_torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(max(2000, 5 * m), m))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    y[:m] = np.arange(m)
    module = to_torch(SplineCalibrator().fit(logits, y))
    scores = torch.from_numpy(3.0 * rng.normal(size=(n, m)))

    def ours() -> Any:
        with torch.no_grad():
            return module(scores)

    return ours, lambda: torch.softmax(scores, -1)


FEW = 1000
"""Rows of a file on which the start of a command is measured."""
START = "import numpy, scipy.linalg, duckdb"


def process(*arguments: str) -> Call:
    """A process of its own, which has the bytecode of what it imports."""
    environment = os.environ | {
        "PYTHONPATH": str(Path(calspline.__file__).parents[1]),
        "PYTHONPYCACHEPREFIX": str(FOLDER / "bytecode"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    run = partial(subprocess.run, cwd=FOLDER, env=environment, check=True)
    return lambda: run([sys.executable, *arguments], stdout=subprocess.DEVNULL)


def command(text: str) -> Call:
    return process("-m", "calspline", *text.split())


@cache
def make_files() -> None:
    """A small table and a model of it."""
    write_rows(FOLDER / "few.parquet", FEW)
    command("fit few.parquet -o few.json")()


def command_line(text: str, other: str = START) -> Pair:
    make_files()
    return command(text), process("-c", other)


ENTRIES: dict[str, Callable[[], Pair]] = {
    "fit 200 rows / sigmoid": partial(fit, 200, "sigmoid"),
    "fit 1,000 rows / sigmoid": partial(fit, 1000, "sigmoid"),
    "fit 1,000 rows / isotonic": partial(fit, 1000, "isotonic"),
    "fit 100,000 rows / sigmoid": partial(fit, 100_000, "sigmoid"),
    "fit 100,000 rows / isotonic": partial(fit, 100_000, "isotonic"),
    "fit 1,000,000 rows / sigmoid": partial(fit, MILLION, "sigmoid"),
    "fit 1,000,000 rows / isotonic": partial(fit, MILLION, "isotonic"),
    "fit 100,000 shares of votes / isotonic": partial(
        fit, 100_000, "isotonic", "votes"
    ),
    "fit 100,000 over-confident rows / isotonic": partial(
        fit, 100_000, "isotonic", "overconfident"
    ),
    "calibrate 1 row / isotonic": partial(calibrate, 1),
    "calibrate 100 rows / isotonic": partial(calibrate, 100),
    "calibrate 1,000,000 rows / isotonic": partial(calibrate, MILLION),
    "interval of 10,000 rows / calibrate": interval,
    "fit 100,000 rows in groups of 5 / without": groups,
    "fit 100,000 rows in 1,000 segments / pooled": segments,
    "fit 3,000 rows in two columns of segments / pooled": two_columns,
    "calibrate 100,000 rows in 1,000 segments / pooled": partial(
        segments, predict=True
    ),
    "structured fit 2,000 x 3 / 20 softmaxes": partial(structured, 2000, 3),
    "structured fit 10,000 x 10 / 20 softmaxes": partial(structured, 10_000, 10),
    "structured fit 5,000 x 100 / 20 softmaxes": partial(structured, 5000, 100),
    "one-vs-rest fit 10,000 x 10 / 20 softmaxes": partial(
        structured, 10_000, 10, multiclass="ovr"
    ),
    "one-vs-rest fit 5,000 x 100 / a loop over classes": one_vs_rest,
    "temperature fit 10,000 x 10 / 20 softmaxes": partial(temperature, 10_000, 10),
    "structured predict 50,000 x 10 / softmax": partial(predict_classes, 50_000, 10),
    "structured predict 10,000 x 100 / softmax": partial(predict_classes, 10_000, 100),
    "one-vs-rest predict 50,000 x 10 / softmax": partial(
        predict_classes, 50_000, 10, multiclass="ovr"
    ),
    "evaluate 10,000 rows / fit": partial(judge, "evaluate"),
    "print an evaluation of 10,000 rows / fit": partial(judge, "print"),
    "evaluate a million rows / fit": judge_many_rows,
    "report with 1,000 classes / fit": judge_many_classes,
    "compare 10,000 rows / fit": partial(judge, "compare"),
    "report on 10,000 rows / fit": partial(judge, "report"),
    "classifier 5,000 rows / scikit-learn": classifier,
    "save and load / JSON": saved,
    "fit_frame 1,000,000 rows, DuckDB / aggregation": partial(duckdb_frame, "fit"),
    "apply_frame 1,000,000 rows, DuckDB / log-odds": partial(duckdb_frame, "apply"),
    "fit_frame 1,000,000 rows, polars / aggregation": partial(polars_frame, "fit"),
    "apply_frame 1,000,000 rows, polars / log-odds": partial(polars_frame, "apply"),
    "torch 100,000 x 2 / softmax": partial(torch_module, 100_000, 2),
    "torch 10,000 x 10 / softmax": partial(torch_module, 10_000, 10),
    "torch 2,500 x 100 / softmax": partial(torch_module, 2500, 100),
    "torch 250 x 1,000 / softmax": partial(torch_module, 250, 1000),
    "command fit / imports": partial(
        command_line, "fit few.parquet -o out.json --force"
    ),
    "command apply / imports": partial(
        command_line, "apply few.json few.parquet -o out.csv --force"
    ),
    "command export / imports": partial(command_line, "export few.json --to sql"),
    "command --help / python": partial(command_line, "--help", "pass"),
    "import calspline / python": lambda: (
        process("-c", "import calspline"),
        process("-c", "pass"),
    ),
}
