"""Tests are in the layers that `make check` leaves out for a reason, and only then."""

import subprocess
import sys
import tomllib

import pytest
from tests.conftest import LAYER_OF_FIXTURE, LAYERS, TESTS


def test_every_layer_is_a_marker_and_left_out_by_make_check():
    options = tomllib.loads(
        (TESTS.parent / "pyproject.toml").read_text(encoding="utf-8")
    )["tool"]["pytest"]["ini_options"]
    assert {marker.partition(":")[0] for marker in options["markers"]} == LAYERS
    assert {*LAYER_OF_FIXTURE.values()} <= LAYERS
    check = (
        (TESTS.parent / "Makefile")
        .read_text(encoding="utf-8")
        .partition("\ncheck:")[2]
        .partition("\n\n")[0]
    )
    assert all(layer in check for layer in LAYERS)


def test_a_test_without_a_marker_cannot_start_a_process():
    with pytest.raises(AssertionError, match="`process`"):
        subprocess.run([sys.executable, "--version"], check=True)


@pytest.mark.process
def test_a_test_with_a_marker_can():
    subprocess.run([sys.executable, "--version"], check=True, capture_output=True)


@pytest.mark.process
def test_tests_that_share_an_engine_share_a_worker(tmp_path):
    folder = tmp_path / "tests" / "engines"
    folder.mkdir(parents=True)
    (folder / "test_two.py").write_text(
        "import pytest\n"
        "from pathlib import Path\n"
        "@pytest.mark.parametrize('number', range(6))\n"
        "@pytest.mark.parametrize('engine', ['spark', 'polars'])\n"
        "def test_where(engine, number, worker_id):\n"
        f"    Path({str(tmp_path)!r}, f'{{engine}}-{{number}}').write_text(worker_id)\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, tmp_path],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    workers = {
        engine: [path.read_text() for path in tmp_path.glob(f"{engine}-*")]
        for engine in ("spark", "polars")
    }
    assert len(workers["spark"]) == len(workers["polars"]) == 6
    assert len(set(workers["spark"])) == 1
    assert (
        workers["polars"].count(workers["spark"][0]) < 6
    )  # the other worker was there


@pytest.mark.process
def test_make_check_tries_each_value_of_each_parameter_and_make_test_all_combinations(
    tmp_path,
):
    (tmp_path / "test_product.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('number', range(3))\n"
        "@pytest.mark.parametrize(('letter', 'mark'), [('a', '!'), ('b', '?'), ('a', '?')])\n"
        "def test_product(letter, mark, number): pass\n"
        "@pytest.mark.parametrize('number', range(3))\n"
        "def test_single(number): pass\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
    ]

    def collected(*options):
        done = subprocess.run(
            [*command, *options, tmp_path],
            cwd=TESTS.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        names = [
            line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line
        ]
        return [
            set(name[:-1].partition("[")[2].split("-"))
            for name in names
            if "product" in name
        ], len(names)

    products, number = collected()
    assert len(products) == 9
    assert number == 12
    products, number = collected("-m", "not slow")
    assert len(products) == 5
    assert number == 8
    assert set.union(*products) == {"a", "b", "!", "?", "0", "1", "2"}
    assert any(
        {"a", "?"} <= names for names in products
    )  # arguments given together are one value
