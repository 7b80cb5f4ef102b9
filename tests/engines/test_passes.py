"""How often the rows are read: twice, whatever the number of classes."""

import numpy as np
import pandas as pd
import pytest

from calspline import SplineCalibrator, fit_frame

N = 40_000  # enough that no class needs a finer grid
CLASSES = 4
NAMES = [f"p{j}" for j in range(CLASSES)]


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (N, CLASSES))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    labels = (np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)).cumsum(
        axis=1
    ) < rng.random((N, 1))
    return pd.DataFrame(p, columns=NAMES).assign(y=labels.sum(axis=1))


def polars_frame(frame, read):
    import polars as pl

    def seen(column):
        read(len(column))
        return column

    return (
        pl.from_pandas(frame)
        .lazy()
        .with_columns(pl.col("p0").map_batches(seen, return_dtype=pl.Float64))
    )


def duckdb_frame(frame, read):
    import duckdb

    connection = duckdb.connect()
    count_rows(connection, read)
    connection.register("rows", frame)
    return connection.sql("SELECT * REPLACE (seen(p0) AS p0) FROM rows")


def ibis_frame(frame, read):
    import ibis

    backend = ibis.duckdb.connect()
    count_rows(backend.con, read)
    backend.con.register("held", frame)
    backend.con.execute(
        "CREATE VIEW rows AS SELECT * REPLACE (seen(p0) AS p0) FROM held"
    )
    return backend.table("rows")


def count_rows(connection, read):
    """A function ``seen`` that lets numbers pass."""

    def seen(column):
        read(len(column))
        return column

    connection.create_function(
        "seen", seen, ["DOUBLE"], "DOUBLE", type="arrow", side_effects=True
    )


def dask_frame(frame, read):
    import dask.dataframe as dd

    def part(k):
        taken = frame.iloc[k::5]
        read(len(taken))
        return taken

    return dd.from_map(part, range(5), meta=frame.iloc[:0])


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
@pytest.mark.parametrize("make", [polars_frame, duckdb_frame, ibis_frame, dask_frame])
def test_all_classes_are_summed_in_one_pass_after_one_for_what_the_columns_hold(
    frame, make
):
    read = []
    fitted = fit_frame(
        make(frame, read.append), score=NAMES, label="y", multiclass="ovr"
    )
    assert sum(read) == 2 * N
    wanted = SplineCalibrator(multiclass="ovr").fit(frame[NAMES].to_numpy(), frame["y"])
    p = frame[NAMES].to_numpy()[:300]
    np.testing.assert_allclose(
        fitted.predict_proba(p), wanted.predict_proba(p), rtol=0, atol=1e-9
    )


@pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas:FutureWarning"
)
def test_spark_reads_the_rows_twice_too(frame, spark_session, tmp_path):
    frame.to_parquet(tmp_path / "rows.parquet")
    read = spark_session.sparkContext.accumulator(0)

    def seen(batches):
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    rows = spark_session.read.parquet(str(tmp_path / "rows.parquet"))
    fit_frame(
        rows.mapInArrow(seen, rows.schema), score=NAMES, label="y", multiclass="ovr"
    )
    assert read.value == 2 * N


@pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas:FutureWarning"
)
def test_a_fit_in_spark_takes_a_bounded_number_of_calls_of_java(
    frame, spark_session, monkeypatch
):
    """Each costs a tenth of a millisecond; collected garbage is not counted."""
    from py4j.clientserver import JavaClient

    send = JavaClient.send_command
    commands = []

    def counted(self, command, *arguments, **options):
        if not command.startswith("m\n"):
            commands.append(command)
        return send(self, command, *arguments, **options)

    rows = spark_session.createDataFrame(frame.assign(late=frame["y"] > 1))
    monkeypatch.setattr(JavaClient, "send_command", counted)
    fit_frame(rows, score="p3", label="late")
    assert len(commands) < 1800
