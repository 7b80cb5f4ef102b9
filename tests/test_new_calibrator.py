"""A calibrator from outside the package: one class and one registration, and everything takes it."""

import csv
import json
import warnings
from typing import ClassVar

import duckdb
import jsonschema
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from calspline import CalibratedClassifierCV, CalibrationCurve, calibrators, load, save
from calspline.calibrators.base import MapFit, OneVsRestCalibrator
from calspline.cli import main
from calspline.export import to_python, to_sql
from calspline.options import Domain, Number
from calspline.persistence import schema
from calspline.transforms import Transform


class ToyCalibrator(OneVsRestCalibrator):
    """Shift the log-odds until the mean probability is the base rate, or a part of the way."""

    _parameter_constraints: ClassVar[dict[str, Domain]] = {"share": Number(above=0.0, below=1.5)}

    def __init__(self, share=1.0):
        self.share = share

    def _fit_map(self, scores, positive, weight):
        x = scores.locations()
        rate = np.average(positive, weights=weight)
        shift = brentq(lambda s: np.average(expit(x + s), weights=weight) - rate, -50.0, 50.0)
        line = np.zeros((4, 3))
        line[2] = 1.0
        line[3] = self.share * shift + np.array([0.0, 0.0, 1.0])
        transform = Transform("logit" if scores.kind == "probability" else "identity")
        return MapFit(CalibrationCurve(transform, np.array([0.0, 1.0]), line))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(calibrators, "_HOMES", dict(calibrators._HOMES))
    calibrators.register("toy", f"{__name__}.ToyCalibrator")


@pytest.fixture
def two():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.6, 400)
    return p, (rng.random(400) < expit(np.log(p / (1 - p)) + 1.0)).astype(int)


@pytest.fixture
def three():
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1.0, 2.0, 3.0], 400)
    return p, np.array([rng.choice(3, p=row) for row in p])


def test_it_fits_and_predicts_two_classes(two):
    p, y = two
    cal = ToyCalibrator().fit(p, y)
    assert cal.calibrate(p).mean() == pytest.approx(y.mean())
    assert set(cal.predict(p)) <= {0, 1}
    np.testing.assert_allclose(ToyCalibrator(share=1e-12).fit(p, y).calibrate(p), p)


def test_it_fits_and_predicts_three_classes(three):
    p, y = three
    q = ToyCalibrator().fit(p, y).predict_proba(p)
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    assert len(ToyCalibrator().fit(p, y).curves_) == 3


def test_its_options_are_checked_by_their_domain(two):
    with pytest.raises(ValueError, match=r"share must be a number in \(0, 1.5\); got 2"):
        ToyCalibrator(share=2).fit(*two)
    assert clone(ToyCalibrator(share=0.5)).share == 0.5


def test_the_wrapper_knows_it_by_name():
    X, y = make_classification(200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = CalibratedClassifierCV(LogisticRegression(), method="toy", cv=3).fit(X, y)
    assert type(fitted.calibrated_classifiers_[0].calibrators[0]).__name__ == "ToyCalibrator"
    with pytest.raises(ValueError, match=r"method must be one of 'spline', .*'toy'"):
        CalibratedClassifierCV(LogisticRegression(), method="tot").fit(X, y)


@pytest.mark.parametrize("classes", ["two", "three"])
def test_it_is_saved_and_loaded_and_the_schema_covers_it(classes, request, tmp_path):
    p, y = request.getfixturevalue(classes)
    cal = calibrators.find("toy")(share=0.5).fit(p, y)
    save(cal, tmp_path / "toy.json")
    back = load(tmp_path / "toy.json")
    assert back.get_params() == {"share": 0.5}
    np.testing.assert_array_equal(back.predict_proba(p), cal.predict_proba(p))
    body = json.loads((tmp_path / "toy.json").read_text())
    jsonschema.Draft202012Validator(schema()).validate(body)
    body["parameters"]["share"] = 3.0
    assert not jsonschema.Draft202012Validator(schema()).is_valid(body)


def test_the_command_line_fits_it(two, tmp_path):
    with (tmp_path / "past.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("score", "label"), *zip(*two, strict=True)])
    model = tmp_path / "toy.json"
    assert main(["fit", str(tmp_path / "past.csv"), "--method", "toy", "-o", str(model)]) == 0
    assert type(load(model)).__name__ == "ToyCalibrator"


def test_it_is_exported(two):
    p, y = two
    cal = calibrators.find("toy")().fit(p, y)
    space = {}
    exec(to_python(cal), space)
    np.testing.assert_allclose([space["calibrate"](one) for one in p[:20]], cal.calibrate(p[:20]), rtol=1e-12)
    ((found,),) = duckdb.sql(f"select {to_sql(cal, 'score')} from (select {float(p[0])!r}::double as score)").fetchall()
    assert found == pytest.approx(cal.calibrate(p[:1])[0])


def test_a_name_or_a_class_that_is_taken_is_refused():
    with pytest.raises(ValueError, match="name must be new; 'beta' is calspline"):
        calibrators.register("beta", "elsewhere.Beta")
    with pytest.raises(ValueError, match="there is a ToyCalibrator already"):
        calibrators.register("other", "elsewhere.ToyCalibrator")
