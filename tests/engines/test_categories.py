"""Labels that are categories, and the decimals of databases, count by their own values."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from calspline import SplineCalibrator, fit_frame, load, save


def scored(labels, n=1500, seed=0):
    """A score, and the second of two labels where the event happened."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n)
    return p, np.array(labels, dtype=object)[(rng.random(n) < p).astype(int)]


def pandas(p, y, order=None):
    return pd.DataFrame(
        {"p": p, "y": pd.Categorical(y, categories=order, ordered=order is not None)}
    )


def arrow(p, y, order=None):
    values = order or sorted(set(y))
    codes = pa.array([values.index(label) for label in y], pa.int8())
    dictionary = pa.DictionaryArray.from_arrays(
        codes, pa.array(values), ordered=order is not None
    )
    # Two chunks, as tables that were appended to have.
    column = pa.chunked_array([dictionary.slice(0, 700), dictionary.slice(700)])
    return pa.table({"p": p, "y": column})


def arrow_in_pandas(p, y, order=None):
    """As pandas.read_parquet(dtype_backend="pyarrow") reads categories."""
    return arrow(p, y, order).to_pandas(types_mapper=pd.ArrowDtype)


def dask(p, y, order=None):
    from dask import dataframe

    return dataframe.from_pandas(pandas(p, y, order), npartitions=3)


def dask_of_unknown_categories(p, y):
    from dask import dataframe

    frame = dataframe.from_pandas(
        pd.DataFrame({"p": p, "y": pd.Series(y.tolist())}), npartitions=3
    )
    return frame.assign(y=frame["y"].astype("category"))


def of_dask(values):
    from dask import dataframe

    return dataframe.from_pandas(pd.Series(values), npartitions=3)


def arrow_with_nulls(p, y):
    """Arrow's categories in pandas, some of them missing."""
    column = pa.array(y.tolist()).dictionary_encode()
    return pa.table({"p": p, "y": column}).to_pandas(types_mapper=pd.ArrowDtype)


NUMBERS = [pandas, arrow, arrow_in_pandas, dask, dask_of_unknown_categories]


@pytest.mark.parametrize("make", NUMBERS)
def test_categories_that_are_numbers_are_sorted_as_numbers(make):
    p, y = scored([9, 10])
    fitted = fit_frame(make(p, y), score="p", label="y")
    assert fitted.classes_.tolist() == [9, 10]
    assert fitted.calibrate([0.9])[0] > 0.8 > 0.2 > fitted.calibrate([0.1])[0]
    wanted = SplineCalibrator().fit(p, y.astype(int))
    np.testing.assert_allclose(
        fitted.calibrate(p), wanted.calibrate(p), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("make", [pandas, arrow_with_nulls, dask])
@pytest.mark.parametrize("values", [[False, True], [1.0, 2.0], [9, 10]])
def test_missing_categories_are_counted_and_the_others_keep_their_values(make, values):
    p, y = scored(values)
    y[[3, 5]] = None
    frame = make(p, y)
    with pytest.raises(ValueError, match="found 2 of 1500 in 'y'"):
        fit_frame(frame, score="p", label="y")
    fitted = fit_frame(frame, score="p", label="y", missing="drop")
    assert fitted.classes_.tolist() == values


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
@pytest.mark.parametrize("make", [pandas, arrow, arrow_in_pandas, dask])
def test_twelve_classes_are_the_columns_of_their_numbers(make, multiclass):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(12, 0.3), 3000)
    y = (p.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1).clip(max=11)
    names = [f"c{j}" for j in range(12)]
    frame = make(p[:, 0], y.tolist())
    for name, column in zip(names, p.T, strict=True):
        if isinstance(frame, pa.Table):
            frame = frame.append_column(name, pa.array(column))
        else:
            frame = frame.assign(
                **{name: column if make is pandas else of_dask(column)}
            )
    fitted = fit_frame(frame, score=names, label="y", multiclass=multiclass)
    assert fitted.classes_.tolist() == list(range(12))
    assert np.mean(fitted.predict(p) == y) > 0.35


def polars_enum(p, y, order):
    return pl.DataFrame({"p": p, "y": pl.Series(y.tolist(), dtype=pl.Enum(order))})


def polars_lazy(p, y, order):
    return polars_enum(p, y, order).lazy()


def duckdb_enum(p, y, order):
    import duckdb

    rows = pa.table({"p": p, "y": y.tolist()})
    kind = "ENUM(" + ", ".join(f"'{value}'" for value in order) + ")"
    connection = duckdb.connect()
    return connection.register("rows", rows).sql(
        f"SELECT p, CAST(y AS {kind}) AS y FROM rows"
    )


ORDERED = [pandas, arrow, dask, polars_enum, polars_lazy, duckdb_enum]


@pytest.mark.parametrize("make", ORDERED)
def test_a_declared_order_that_is_not_the_sorted_one_asks_for_positive(make):
    p, y = scored(["low", "high"])
    with pytest.raises(
        ValueError,
        match=r"column 'y' has 'low' < 'high'\. Name the class .* with positive",
    ):
        fit_frame(make(p, y, ["low", "high"]), score="p", label="y")
    fitted = fit_frame(
        make(p, y, ["low", "high"]), score="p", label="y", positive="high"
    )
    assert fitted.classes_.tolist() == ["low", "high"]
    assert fitted.calibrate([0.9])[0] > 0.8


@pytest.mark.parametrize("make", ORDERED)
def test_a_declared_order_that_is_the_sorted_one_is_fine(make):
    p, y = scored(["a", "b"])
    assert fit_frame(
        make(p, y, ["a", "b", "c"]), score="p", label="y"
    ).classes_.tolist() == ["a", "b"]


def test_columns_of_classes_with_a_declared_order_are_named_after_them():
    rng = np.random.default_rng(2)
    p = rng.dirichlet([1.0, 1.0, 1.0], 600)
    order = ["low", "mid", "high"]
    y = np.array(order)[
        (p.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1).clip(max=2)
    ]
    frame = pd.DataFrame(dict(zip(order, p.T, strict=True))).assign(
        y=pd.Categorical(y, order, ordered=True)
    )
    assert fit_frame(frame, score=order, label="y").classes_.tolist() == [
        "high",
        "low",
        "mid",
    ]
    plain = frame.rename(columns=dict(zip(order, "abc", strict=True)))
    with pytest.raises(
        ValueError, match="Name the columns of scores after the classes"
    ):
        fit_frame(plain, score=list("abc"), label="y")


@pytest.mark.parametrize("kind", ["duckdb", "polars", "pyarrow"])
def test_whole_decimals_become_integers_and_can_be_saved(kind, tmp_path):
    import duckdb

    p, y = scored([Decimal(1), Decimal(2)])
    table = pa.table({"p": p, "y": pa.array(y.tolist(), pa.decimal128(9, 2))})
    frame = {
        "duckdb": lambda: duckdb.from_arrow(table),
        "polars": lambda: pl.from_arrow(table),
        "pyarrow": lambda: table,
    }
    fitted = fit_frame(frame[kind](), score="p", label="y")
    assert fitted.classes_.dtype.kind == "i"
    assert fitted.classes_.tolist() == [1, 2]
    save(fitted, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.calibrate(p), fitted.calibrate(p))


def test_decimals_that_are_not_whole_are_no_classes():
    p, y = scored([Decimal("0.5"), Decimal("1.5")])
    table = pa.table({"p": p, "y": pa.array(y.tolist(), pa.decimal128(9, 2))})
    with pytest.raises(
        ValueError,
        match=r"label must be classes, not continuous values; column 'y' has [01]\.5",
    ):
        fit_frame(table, score="p", label="y")
