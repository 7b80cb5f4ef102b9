"""The contract for fit_frame and apply_frame, in memory and in an engine that runs SQL; Spark once, at the end."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import expit, softmax

from calspline import SplineCalibrator, apply_frame, fit_frame


class Box:
    """Frames of one kind, made from a dict of columns, and columns of them as arrays."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, columns):
        if self.kind == "pandas":
            return pd.DataFrame(columns)
        table = pa.table(
            {
                name: pa.array(values, from_pandas=True)
                for name, values in columns.items()
            }
        )
        if self.kind == "pyarrow":
            return table
        if self.kind == "polars":
            return pl.from_arrow(table)
        return duckdb.connect().from_arrow(table)

    def column(self, frame, name):
        """A column of a frame as floats, NaN where there is null."""
        if self.kind == "pandas":
            values = frame[name].to_numpy()
        elif self.kind == "duckdb":
            values = frame.df()[name].to_numpy()
        else:
            values = frame[name].to_numpy()
        return values.astype(float)


@pytest.fixture(params=["polars", "duckdb"])
def box(request):
    return Box(request.param)


def binary(n=200):
    rng = np.random.default_rng(2)
    u = rng.normal(0, 2, n)
    return {
        "p": expit(u),
        "y": (rng.random(n) < expit(u / 2)).astype(int),
        "w": rng.integers(0, 4, n).astype(float),
    }


def ternary(n=200):
    rng = np.random.default_rng(3)
    z = rng.normal(0, 1.5, (n, 3))
    p = softmax(z, axis=1)
    y = (z / 2 + rng.gumbel(size=(n, 3))).argmax(axis=1)
    return {"a": p[:, 0], "b": p[:, 1], "c": p[:, 2], "y": y}


@pytest.fixture
def columns():
    return binary()


@pytest.fixture
def three():
    return ternary()


@pytest.fixture
def fitted(columns):
    return SplineCalibrator().fit(columns["p"], columns["y"])


@pytest.fixture
def fit(box):
    """Fit a dict of columns as a frame of the kind; the score is ``p`` and the label ``y`` unless said."""

    def call(columns, **options):
        return fit_frame(box(columns), **({"score": "p", "label": "y"} | options))

    return call


@pytest.fixture
def apply(box):
    """Calibrated probabilities of scores in a frame of the kind."""

    def call(calibrator, scores):
        return box.column(
            apply_frame(box({"p": scores}), calibrator, score="p"), "calibrated"
        )

    return call


@pytest.fixture
def same():
    """Two calibrators agree, on odd scores too."""
    grid = np.concatenate(
        [[0.0, 1.0, 5e-324, 1e-310, 1 - 1e-16], np.linspace(0.001, 0.999, 200)]
    )

    def check(one, other, scores=grid):
        np.testing.assert_allclose(
            one.calibrate(scores), other.calibrate(scores), rtol=0, atol=1e-9
        )

    return check


def changed(columns, name, row, value):
    """The columns with one value replaced."""
    out = np.array(
        columns[name],
        dtype=object if value is None or isinstance(value, str) else float,
    )
    out[row] = value
    return columns | {name: out}
