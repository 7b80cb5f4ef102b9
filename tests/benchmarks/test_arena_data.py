import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from benchmarks.arena import calarena
from benchmarks.arena.sources import sources

ROOT = Path(__file__).parents[2]


def experiment(rng, n_classes, n=40):
    p = rng.dirichlet(np.ones(n_classes), size=n)
    return p, np.array([rng.choice(n_classes, p=row) for row in p])


@pytest.fixture
def calarena_folder(tmp_path):
    """Two data sets, three models, in CalArena's own layout."""
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "calarena.h5", "w") as file:
        for name, n_classes in (("adult/rf", 2), ("adult/xgb", 2), ("digits/mlp", 5)):
            for part in ("cal", "test"):
                p, y = experiment(rng, n_classes)
                file[f"{name}/probas_{part}"] = p.astype(np.float32)
                file[f"{name}/labels_{part}"] = y.astype(np.int32)
    return tmp_path


def test_every_model_of_every_data_set_is_an_experiment(calarena_folder):
    assert [source.name for source in sources(calarena_folder)] == [
        "adult__rf",
        "adult__xgb",
        "digits__mlp",
    ]


def test_a_pattern_picks_experiments(calarena_folder):
    assert [source.name for source in sources(calarena_folder, "*__mlp")] == [
        "digits__mlp"
    ]


def test_arrays_come_as_they_were_written_but_in_double_precision(calarena_folder):
    (source,) = sources(calarena_folder, "digits__mlp")
    found = source.read()
    with h5py.File(calarena_folder / "calarena.h5") as file:
        written = file["digits/mlp"]
        np.testing.assert_allclose(found.fit_p, written["probas_cal"], atol=1e-6)
        np.testing.assert_allclose(found.test_p, written["probas_test"], atol=1e-6)
        np.testing.assert_array_equal(found.fit_y, written["labels_cal"])
        np.testing.assert_array_equal(found.test_y, written["labels_test"])
    assert found.fit_p.dtype == np.float64
    np.testing.assert_allclose(found.fit_p.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_binary_probabilities_of_the_second_class_alone_get_both_columns(
    tmp_path, shape
):
    second = np.array([0.1, 0.4, 0.7, 1.0])
    with h5py.File(tmp_path / "one.hdf5", "w") as file:
        for part in ("cal", "test"):
            file[f"a/b/probas_{part}"] = second.reshape(shape)
            file[f"a/b/labels_{part}"] = [0, 0, 1, 1]
    found = calarena.read(tmp_path / "one.hdf5", "a/b")
    np.testing.assert_allclose(found.test_p, np.column_stack([1.0 - second, second]))


def test_an_experiment_with_an_array_missing_is_named(tmp_path):
    with h5py.File(tmp_path / "bad.h5", "w") as file:
        file["wine/rf/probas_cal"] = [[0.5, 0.5]]
        file["wine/rf/labels_cal"] = [0]
    with pytest.raises(ValueError, match=r"wine/rf has no probas_test, labels_test"):
        sources(tmp_path)


def test_without_h5py_the_error_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "some.h5").touch()
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match="pip install h5py"):
        sources(tmp_path)


@pytest.mark.process
def test_the_arena_runs_on_such_a_folder_and_writes_a_page_and_a_leaderboard(
    calarena_folder,
):
    page = calarena_folder / "page.md"
    command = [
        sys.executable,
        "-m",
        "benchmarks.arena",
        "--data",
        str(calarena_folder),
        "--output",
        str(page),
    ]

    env = os.environ | {"CALSPLINE_CACHE": str(calarena_folder / "cache")}
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert "## Binary: 2 experiments" in text
    assert "## Multiclass: 1 experiments" in text
    assert "| calspline ovr" in text
    assert (calarena_folder / "live.png").stat().st_size > 10_000
    assert not list((calarena_folder / "cache").glob("*.jsonl"))
