import numpy as np
import pandas as pd
import pytest

OLD_CALL = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
"""That ibis makes of DuckDB."""
YOUNG_PANDAS = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas:FutureWarning"
)
ENGINES = [
    "pandas",
    "polars",
    "polars-lazy",
    "pyarrow",
    "duckdb",
    "dask",
    pytest.param("ibis", marks=OLD_CALL),
    pytest.param("spark", marks=YOUNG_PANDAS),
]


def rows(n=6000, seed=3):
    """Scores with exact 0 and 1, denormals, many duplicates, weights (some zero) and labels that are words."""
    rng = np.random.default_rng(seed)
    u = rng.normal(-0.3, 2.5, n)
    p = 1 / (1 + np.exp(-u))
    p[: n // 4] = p[: n // 4].round(2)
    p[:20], p[20:40], p[40:45], p[45:50] = 0.0, 1.0, 5e-324, 1e-310
    happened = rng.random(n) < 1 / (1 + np.exp(-(0.5 * u + 0.4 * np.sin(u))))
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "p": p,
            "outcome": np.where(happened, "yes", "no"),
            "w": rng.integers(0, 4, n) * 0.5,
        }
    )


class Engine:
    """Makes frames of a kind from a pandas frame, and pandas frames from them."""

    def __init__(self, name, folder, request):
        self.name, self._folder, self._request = name, folder, request
        self._files = 0

    def _parquet(self, frame):
        self._files += 1
        path = self._folder / f"{self._files}.parquet"
        frame.to_parquet(path)
        return str(path)

    def make(self, frame):
        if self.name == "pandas":
            return frame.copy()
        if self.name == "pyarrow":
            import pyarrow.parquet

            return pyarrow.parquet.read_table(self._parquet(frame))
        if self.name.startswith("polars"):
            import polars

            path = self._parquet(frame)
            return (
                polars.read_parquet(path)
                if self.name == "polars"
                else polars.scan_parquet(path)
            )
        if self.name == "duckdb":
            import duckdb

            return duckdb.connect().from_parquet(self._parquet(frame))
        if self.name == "dask":
            import dask.dataframe

            return dask.dataframe.from_pandas(frame, npartitions=3)
        if self.name == "ibis":
            import ibis

            return ibis.duckdb.connect().read_parquet(self._parquet(frame))
        session = self._request.getfixturevalue("spark_session")
        return session.read.parquet(self._parquet(frame))

    def pandas(self, frame):
        if self.name == "pandas":
            return frame
        if self.name == "polars-lazy":
            frame = frame.collect()
        if self.name.startswith("polars") or self.name == "pyarrow":
            return frame.to_pandas()
        if self.name == "duckdb":
            return frame.df()
        if self.name == "dask":
            return frame.compute()
        if self.name == "ibis":
            return frame.to_pyarrow().to_pandas()
        return frame.toArrow().to_pandas()


@pytest.fixture(params=ENGINES)
def engine(request, tmp_path):
    """One engine after the other."""
    name = request.param
    pytest.importorskip(
        {"polars-lazy": "polars", "spark": "pyspark", "dask": "dask.dataframe"}.get(
            name, name
        )
    )
    return Engine(name, tmp_path, request)


@pytest.fixture
def data():
    return rows
