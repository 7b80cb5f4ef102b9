import json
import os
import subprocess
import sys
from pathlib import Path
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
    save(
        SplineCalibrator().fit(score[3000:9000], label[3000:9000]),
        folder / "other.json",
    )
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
            [sys.executable, *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )

    run.temporary = temporary
    return run


class Forks:
    """A process that has imported what is slow to import, and forks for every run; see forks.py."""

    def __init__(self, *prefix):
        command = [*prefix, sys.executable, str(Path(__file__).with_name("forks.py"))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **request):
        print(json.dumps(request, default=str), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.communicate()


@pytest.fixture(scope="session")
def forks():
    """Processes to fork from, by what they are started with."""
    found = {}

    def ask(*prefix, **request):
        if prefix not in found:
            found[prefix] = Forks(*prefix)
        return found[prefix].ask(**request)

    yield ask
    for process in found.values():
        process.close()


@pytest.fixture
def run_fork(forks, tmp_path):
    """Run ``python arguments`` as a fork; how it ended, and what it said."""

    def run(
        *arguments,
        prefix=(),
        folder=tmp_path,
        stdin=os.devnull,
        stdout=tmp_path / "stdout",
        **more,
    ):
        files = [stdin, stdout, tmp_path / "stderr"]
        more = {"environment": {}} | more
        return SimpleNamespace(
            **forks(*prefix, arguments=arguments, files=files, folder=folder, **more)
        )

    return run
