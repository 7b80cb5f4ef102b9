"""The contract for the command: exit code 2, one line that says what to do, and nothing written."""

import numpy as np
import pytest
from tests.cli.conftest import done, run  # noqa: F401

import calspline

GOOD = "score,label\n0.1,0\n0.6,1\n0.3,0\n0.8,1\n"
EXPECTED = calspline.SplineCalibrator().fit([0.1, 0.6, 0.3, 0.8], [0, 1, 0, 1])


@pytest.fixture
def refuses(run, tmp_path):  # noqa: F811
    """A fit to a file, text or bytes, is refused in one line with these words."""

    def call(content, *words, options=(), name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        there = set(tmp_path.iterdir())
        found = run("fit", name, "-o", "model.json", *options)
        assert (found.code, found.out, found.err.count("\n")) == (2, "", 1), found.err
        assert found.err.isprintable() or found.err[:-1].isprintable()
        for word in words:
            assert word in found.err
        assert set(tmp_path.iterdir()) == there

    return call


@pytest.fixture
def fits(done, tmp_path):  # noqa: F811
    """The model that comes of fitting a file."""

    def call(content, *options, name="data.csv"):
        (tmp_path / name).write_bytes(
            content.encode() if isinstance(content, str) else content
        )
        done("fit", name, "-o", "model.json", "--force", *options)
        return calspline.load(tmp_path / "model.json")

    return call


@pytest.fixture
def agrees():
    """The model is the one of the library for these rows."""

    def call(model, scores=(0.1, 0.6, 0.3, 0.8), y=(0, 1, 0, 1), weight=None):
        grid = np.linspace(0, 1, 21)
        expected = calspline.SplineCalibrator().fit(list(scores), list(y), weight)
        np.testing.assert_allclose(
            model.calibrate(grid), expected.calibrate(grid), rtol=0, atol=1e-9
        )

    return call


def table(*rows, names="score,label"):
    """Text of a CSV file."""
    return "\n".join([names, *rows]) + "\n"
