"""The JSON schema of model files, src/calspline/model.schema.json: what save writes keeps to it."""

import json
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from tests.faults.files.test_hostile_files import places, spoiled

from calspline import ScoreHistogram, SplineCalibrator, save
from calspline.calibrators import classes
from calspline.persistence import FIELDS, LARGEST_FILE, VERSION
from calspline.persistence import schema as made_schema


@pytest.fixture(scope="module")
def schema():
    return json.loads(files("calspline").joinpath("model.schema.json").read_text())


@pytest.fixture
def valid(schema, tmp_path):
    checker = jsonschema.Draft202012Validator(schema)

    def call(thing):
        save(thing, tmp_path / "m.json")
        body = json.loads((tmp_path / "m.json").read_text())
        checker.validate(body)
        return body

    call.checker = checker
    return call


def test_55_the_schema_is_one_and_of_this_version(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    made = [schema["$defs"][each["$ref"].rpartition("/")[2]] for each in schema["oneOf"]]
    assert {one["properties"]["class"]["const"] for one in made} == {*classes(), "ScoreHistogram", "Monitor"}
    for one in made:
        other = {"ScoreHistogram": "histogram", "Monitor": "monitor"}.get(one["properties"]["class"]["const"])
        assert set(one["required"]) == (FIELDS if other is None else {"format", "version", "class", other, "checksum"})
        assert one["properties"]["version"]["const"] == VERSION
    assert f"{LARGEST_FILE >> 20} MB" in schema["description"]


def test_55_the_file_is_what_the_declarations_of_the_calibrators_make(schema):
    assert schema == json.loads(json.dumps(made_schema())), "make schema writes it anew"


def test_55_every_saved_model_keeps_to_the_schema(valid, cal, problem):
    valid(problem.fit(cal))


@pytest.mark.filterwarnings("ignore:all scores are equal")
def test_55_constant_models_and_margins_keep_to_it(valid, cal, problem, takes_margins):
    valid(cal.fit(np.full_like(problem.scores, 1 / problem.n_classes), problem.y))
    if takes_margins:
        valid(cal.fit(problem.margins, np.array(["no", "yes", "maybe"])[problem.y]))


@pytest.mark.parametrize(
    "options",
    [
        {"smoothing": np.inf, "n_knots": 5},
        {"smoothing": "loo", "transform": "compact_logit", "epsilon": 0.01},
        {"knots": np.array([0.1, 0.5, 0.9]), "smoothing_grid": [0.1, 1.0], "random_state": np.random.RandomState(0)},
        {"smoothing": "cv", "random_state": 7, "transform": "asinh_logit"},
    ],
    ids=lambda o: "-".join(o),
)
def test_55_options_keep_to_it(valid, two, options):
    valid(SplineCalibrator(**options).fit(two.scores, two.y))


def test_55_histograms_keep_to_it(valid, two):
    valid(ScoreHistogram.from_scores(two.scores, two.y))
    valid(ScoreHistogram.from_scores(two.margins, two.y))
    valid(ScoreHistogram.from_scores([], [], classes=[0, 1]))
    p = np.linspace(0.0, 1.0, 9000)
    valid(ScoreHistogram.from_scores(p, p > 0.5))


@pytest.mark.slow
def test_55_an_object_anywhere_else_breaks_the_schema(valid, two, three):
    for thing in (
        SplineCalibrator(n_knots=4).fit(two.scores, two.y),
        SplineCalibrator().fit(three.scores, three.y),
        ScoreHistogram.from_scores(two.scores, two.y),
    ):
        body = valid(thing)
        for place in places(body):
            assert not valid.checker.is_valid(spoiled(body, place, {"odd": 1})), place
