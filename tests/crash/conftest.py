import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from calspline import ScoreHistogram, SplineCalibrator, save

ROWS = 200_000


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """A folder with models, a histogram, and files of scores and labels."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    score = rng.random(ROWS)
    label = (rng.random(ROWS) < score**2).astype(int)
    table = pa.table({"score": score, "label": label})
    pyarrow.parquet.write_table(table, folder / "rows.parquet")
    pyarrow.csv.write_csv(table.slice(0, 50_000), folder / "rows.csv")
    save(SplineCalibrator().fit(score[:3000], label[:3000]), folder / "model.json")
    save(SplineCalibrator().fit(score[3000:9000], label[3000:9000]), folder / "other.json")
    save(ScoreHistogram.from_scores(score, label), folder / "histogram.json")
    return SimpleNamespace(
        folder=folder,
        rows=folder / "rows.parquet",
        csv=folder / "rows.csv",
        model=folder / "model.json",
        other=folder / "other.json",
        histogram=folder / "histogram.json",
    )


@pytest.fixture
def alone(tmp_path):
    """Run a process with a folder of its own for temporary files."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def run(*arguments, **more):
        environment = os.environ | {"TMPDIR": str(temporary)} | more
        return subprocess.run(
            [sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment, check=False
        )

    run.temporary = temporary
    return run
