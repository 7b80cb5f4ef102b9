"""Tests are in the layers that `make check` leaves out for a reason, and only then."""

import subprocess
import sys
import tomllib

import pytest
from tests.conftest import LAYER_OF_FIXTURE, LAYER_OF_PATH, LAYERS, TESTS


def test_what_is_marked_by_its_path_exists():
    for name in LAYER_OF_PATH:
        path, _, test = name.partition("::")
        assert (TESTS / path).exists(), name
        assert not test or f"def {test}(" in (TESTS / path).read_text(encoding="utf-8"), name


def test_every_layer_is_a_marker_and_left_out_by_make_check():
    options = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"][
        "ini_options"
    ]
    assert {marker.partition(":")[0] for marker in options["markers"]} == LAYERS
    assert {*LAYER_OF_PATH.values(), *LAYER_OF_FIXTURE.values()} <= LAYERS
    check = (TESTS.parent / "Makefile").read_text(encoding="utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    assert all(layer in check for layer in LAYERS)


def test_a_test_without_a_marker_cannot_start_a_process():
    with pytest.raises(AssertionError, match="`process`"):
        subprocess.run([sys.executable, "--version"], check=True)


@pytest.mark.process
def test_a_test_with_a_marker_can():
    subprocess.run([sys.executable, "--version"], check=True, capture_output=True)
