"""Databases that ibis reaches: rows are fitted and calibrated where they are."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from calspline import BetaCalibrator, SplineCalibrator, apply_frame, fit_frame

ibis = pytest.importorskip("ibis")

# An option of pandas that ibis looks at.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The 'future.infer_string' option is deprecated"
)


class SQLite:
    """A file, written without ibis."""

    def __init__(self, request, folder):
        self._path = folder / "scores.db"

    def table(self, name, frame):
        with closing(sqlite3.connect(self._path)) as connection:
            frame.to_sql(name, connection, index=False)
        self._backend = ibis.sqlite.connect(self._path)
        return self._backend.table(name)

    def close(self):
        self._backend.disconnect()


class PostgreSQL:
    """A database of a throw-away cluster."""

    def __init__(self, request, folder):
        cluster = request.getfixturevalue("postgres_cluster")
        self._backend = ibis.postgres.connect(
            host=cluster.folder, user="tester", database="postgres"
        )

    def table(self, name, frame):
        return self._backend.create_table(name, pa.Table.from_pandas(frame), temp=True)

    def close(self):
        self._backend.disconnect()


@pytest.fixture(params=[SQLite, PostgreSQL])
def database(request, tmp_path):
    made = request.param(request, tmp_path)
    yield made
    made.close()


def columns_of(table, names):
    return table.order_by("id").to_pyarrow().to_pandas()[names]


def test_a_database_gives_the_fit_of_arrays_and_its_probabilities(database, data):
    frame = data(3000)
    table = database.table("scores", frame)
    fitted = fit_frame(table, score="p", label="outcome", weight="w")
    wanted = SplineCalibrator().fit(frame["p"], frame["outcome"], frame["w"])
    out = apply_frame(table, fitted, score="p")
    assert isinstance(out, ibis.Table)
    got = columns_of(out, ["p", "calibrated"])
    np.testing.assert_allclose(
        got["calibrated"], wanted.calibrate(got["p"]), rtol=0, atol=1e-9
    )


def test_a_database_sums_all_classes_and_calibrates_them(database):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 2, 3], 1500)
    frame = pd.DataFrame(p, columns=["a", "b", "c"])
    frame["id"], frame["y"] = (
        np.arange(1500),
        (p.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1),
    )
    table = database.table("scores", frame)
    fitted = fit_frame(table, score=["a", "b", "c"], label="y", multiclass="ovr")
    wanted = SplineCalibrator(multiclass="ovr").fit(p, frame["y"]).predict_proba(p)
    got = columns_of(
        apply_frame(table, fitted, score=["a", "b", "c"]),
        [f"calibrated_{j}" for j in range(3)],
    )
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9)


def test_a_score_that_is_none_is_an_error_that_names_the_column(database, data):
    fitted = BetaCalibrator().fit(data()["p"], data()["outcome"])
    frame = data(50)
    frame.loc[3, "p"] = np.nan
    table = database.table("scores", frame)
    got = columns_of(apply_frame(table, fitted, score="p"), "calibrated")
    assert got.isna().tolist() == frame["p"].isna().tolist()
    frame.loc[7, "p"] = 1.5
    table = database.table("wrong", frame)
    with pytest.raises(
        Exception,
        match=r"score must be probabilities in \[0, 1\]; column p has others: 1\.5",
    ):
        columns_of(apply_frame(table, fitted, score="p"), "calibrated")


def test_names_that_need_quotes_work_in_a_database(database, data):
    name = 'the "score" of Alice\'s'
    fitted = BetaCalibrator().fit(data()["p"], data()["outcome"])
    frame = data(50)[["id", "p"]].rename(columns={"p": name})
    table = database.table("scores", frame)
    got = columns_of(
        apply_frame(table, fitted, score=name, output="after 'it'"),
        [name, "after 'it'"],
    )
    np.testing.assert_allclose(
        got["after 'it'"], fitted.calibrate(got[name]), rtol=0, atol=1e-9
    )
