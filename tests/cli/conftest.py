import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

from calspline.cli import main

FORMATS = ["csv", "tsv", "parquet", "jsonl", "arrow"]


def write(table, path, format):
    """A table in a format, written without DuckDB."""
    if format == "csv":
        pyarrow.csv.write_csv(table, path)
    elif format == "tsv":
        pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(delimiter="\t"))
    elif format == "parquet":
        pyarrow.parquet.write_table(table, path)
    elif format == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        pyarrow.feather.write_feather(table, path)
    return path


def read(path, format):
    """The same, read without DuckDB."""
    if format in ("csv", "tsv"):
        return pyarrow.csv.read_csv(
            path,
            parse_options=pyarrow.csv.ParseOptions(
                delimiter="\t" if format == "tsv" else ","
            ),
        )
    if format == "parquet":
        return pyarrow.parquet.read_table(path)
    if format == "jsonl":
        return pa.Table.from_pylist(
            [json.loads(line) for line in path.read_text().splitlines()]
        )
    return pyarrow.feather.read_table(path)


@pytest.fixture(scope="session")
def scored(simulated):
    """Over-confident scores of two classes."""
    score, y, _ = simulated(1500)
    return pa.table(
        {"id": [f"{i:05d}" for i in range(len(y))], "score": score, "label": y}
    )


@pytest.fixture(scope="session")
def three():
    """Over-confident scores of three classes, the columns in no order."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.0, 1.0], 900)
    soft = p**0.5 / (p**0.5).sum(axis=1, keepdims=True)
    codes = (rng.random((900, 1)) > soft.cumsum(axis=1)).sum(axis=1)
    names = np.array(["cat", "dog", "eel"])
    return pa.table(
        {
            "prob_eel": p[:, 2],
            "prob_cat": p[:, 0],
            "prob_dog": p[:, 1],
            "label": names[codes],
        }
    )


@pytest.fixture
def run(capfd, tmp_path, monkeypatch):
    """Run a command in a folder of its own; what it returned and said."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return call


@pytest.fixture
def done(run):
    """Run a command that has to succeed; what it printed."""

    def call(*arguments):
        found = run(*arguments)
        assert found.code == 0, found.err
        return found.out

    return call


def command(*arguments, **more):
    """The command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "calspline", *map(str, arguments)],
        capture_output=True,
        check=False,
        **more,
    )
