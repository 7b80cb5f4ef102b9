"""Every example runs as a script, in a folder of its own, and leaves its picture beside it."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.process

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("[0-9]*.py"))


def run(name, folder, *options, data=None):
    """What a copy of the example prints; it draws in ``folder``."""
    (script,) = FOLDER.glob(f"{name}_*.py")
    shutil.copy(script, folder)
    environment = {
        key: value for key, value in os.environ.items() if key != "CALSPLINE_DATA"
    }
    environment |= {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"} | (
        {} if data is None else {"CALSPLINE_DATA": str(data)}
    )
    command = [sys.executable, folder / script.name, *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def has_picture(folder):
    (picture,) = folder.glob("*.png")
    return (
        picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000
    )


def losses(told):
    """Log-loss before and after, line by line."""
    return [
        (float(before), float(after))
        for before, after in re.findall(r"log-loss (\S+) before, (\S+) after", told)
    ]


@pytest.mark.parametrize(("name", "models"), [("01", 2), ("02", 2)])
def test_calibration_lowers_the_loss_of_models(name, models, tmp_path):
    found = losses(run(name, tmp_path))
    assert len(found) == models
    assert all(after < before for before, after in found)
    assert has_picture(tmp_path)


def test_a_network_is_calibrated_or_torch_asked_for(tmp_path):
    told = run("03", tmp_path)
    if find_spec("torch"):
        before, temperature, after = map(float, re.findall(r"log-loss (\d\.\d+)", told))
        assert after < temperature < before
        assert has_picture(tmp_path)
    else:
        assert told == "PyTorch is not installed: pip install torch\n"


def test_a_network_for_pixels_is_calibrated_or_torch_asked_for(tmp_path):
    told = run("09", tmp_path)
    if find_spec("torch"):
        ((before, after),) = losses(told)
        assert after < before
        said = dict(re.findall(r"(before|after): confidence (0\.\d+)", told))
        right = dict(
            re.findall(r"(before|after): confidence 0\.\d+, accuracy (0\.\d+)", told)
        )
        off = {name: abs(float(said[name]) - float(right[name])) for name in said}
        assert off["after"] < off["before"] / 2
        assert "20000 pixels are worth" in told
        assert has_picture(tmp_path)
    else:
        assert told == "PyTorch is not installed: pip install torch\n"


def test_duckdb_calibrates_in_sql(tmp_path):
    told = run("04", tmp_path)
    assert 'CASE WHEN "score"::DOUBLE BETWEEN -0.0001e0 AND 1.0001' in told
    assert has_picture(tmp_path)


def test_duckdb_joins_a_thousand_segments(tmp_path):
    told = run("10", tmp_path)
    assert 'LEFT JOIN "effects" ON "effects"."segment" = CASE' in told
    [(before, after)] = losses(told)
    assert after < before
    one_curve, own = map(
        int,
        re.findall(r"miscalibrated: (\d+) with one curve, (\d+) with their own", told)[
            0
        ],
    )
    assert own < one_curve / 10
    assert "1,000 merchants" in told
    assert has_picture(tmp_path)


def test_spark_calibrates_in_the_cluster(tmp_path):
    assert "avg(calibrated)" in run("05", tmp_path)
    assert has_picture(tmp_path)


@pytest.mark.parametrize("name", ["06", "07"])
def test_without_the_data_an_example_says_how_to_name_it(name, tmp_path):
    assert "set CALSPLINE_DATA to the folder that has it" in run(name, tmp_path)
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("06", ("538_nba_games", "538_mlb_games")),
        ("07", ("support2_physician_prg2m", "support2_model_surv2m")),
    ],
)
def test_forecasts_are_judged(name, files, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "data" / "scores").mkdir(parents=True)
    for file in files:
        scores = rng.random(400).round(2)
        np.savez(
            tmp_path / "data" / "scores" / f"{file}.npz",
            scores=scores,
            labels=rng.random(400) < scores,
        )
    assert "miscalibration" in run(name, tmp_path, data=tmp_path / "data")
    assert has_picture(tmp_path)


def test_streaming_gives_one_fit_both_ways(tmp_path):
    told = run("08", tmp_path, "--rows", "600000")
    assert (
        float(re.search(r"largest difference of the two fits: (\S+)", told)[1]) < 1e-9
    )
    assert "600,000 rows" in told
    assert has_picture(tmp_path)


def test_every_example_has_a_number_a_test_a_picture_and_a_line_in_the_table():
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    tested = Path(__file__).read_text(encoding="utf-8")
    assert [path.name[:2] for path in EXAMPLES] == [
        f"{i:02}" for i in range(1, len(EXAMPLES) + 1)
    ]
    for path in EXAMPLES:
        assert f'"{path.name[:2]}"' in tested
        assert f"({path.name})" in table
        assert f"({path.with_suffix('.png').name})" in table
        assert path.with_suffix(".png").is_file()
