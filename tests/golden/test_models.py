"""Stored models are read, answer what they answered, and are saved as they were."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.golden.kinds import MODELS, describe

import calspline
from calspline import calibrators

FOLDER = Path(__file__).parent / "models"
FILES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_stored_model_answers_what_it_answered(path):
    then = json.loads((path.parent / "predictions" / path.name).read_text())
    now = describe(calspline.load(path), then.pop("inputs"))
    assert now.keys() == then.keys()
    for name, value in then.items():
        if name in ("probabilities", "interval"):
            # exp and log are not the same to the last bit everywhere.
            np.testing.assert_allclose(now[name], value, rtol=1e-12, atol=1e-14)
        else:
            assert now[name] == value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_model_that_was_read_is_saved_as_it_was(path, tmp_path):
    calspline.save(calspline.load(path), tmp_path / "again.json")
    again = json.loads((tmp_path / "again.json").read_text())
    assert again == json.loads(path.read_text())


def test_every_class_that_can_be_saved_is_among_them():
    stored = {json.loads(path.read_text())["class"] for path in FILES}
    assert stored == {*calibrators.classes(), "ScoreHistogram"}
    assert {path.stem for path in FILES} == set(MODELS)
