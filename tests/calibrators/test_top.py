"""The confidence of the most probable class: what the calibrator of two classes makes of it, and the rest shared."""

import json

import numpy as np
import pytest
from scipy.special import softmax

from calspline import CalibratedClassifierCV, SplineCalibrator, apply_frame, fit_frame, load, save
from calspline.cli import main
from calspline.cli.arguments import parser

RNG = np.random.default_rng(0)
LOGITS = 2.0 * RNG.normal(size=(3000, 4))
Y = (LOGITS / 2.0 + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
P = softmax(LOGITS, axis=1)
TOP, ROWS = P.argmax(axis=1), np.arange(len(P))
PAIR = np.column_stack([1.0 - P.max(axis=1), P.max(axis=1)])
NEW = softmax(3.0 * RNG.normal(size=(200, 4)), axis=1)
NEW_TOP, NEW_ROWS = NEW.argmax(axis=1), np.arange(200)
NEW_PAIR = np.column_stack([1.0 - NEW.max(axis=1), NEW.max(axis=1)])


def top(**options):
    return SplineCalibrator(multiclass="top", **options)


OPTIONS = [
    {},
    {"monotone": True},
    {"transform": "asinh_logit"},
    {"transform": "identity"},
    {"loss": "brier"},
    {"smoothing": "cv"},
    {"smoothing": 0.01, "n_knots": 10},
    {"transform": "compact_logit", "penalty": "ridge", "knots": "sample", "n_knots": 20},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_the_calibrator_of_two_classes_on_confidence_and_right_or_wrong(options):
    binary = SplineCalibrator(**options).fit(PAIR, Y == TOP)
    cal = top(**options).fit(P, Y)
    q = binary.predict_proba(NEW_PAIR)[:, 1]
    out = cal.predict_proba(NEW)
    np.testing.assert_allclose(out[NEW_ROWS, NEW_TOP], q, atol=1e-9)
    others = np.where(NEW_TOP[:, None] == np.arange(4), 0.0, NEW)
    wanted = others / others.sum(axis=1, keepdims=True) * (1.0 - q[:, None])
    wanted[NEW_ROWS, NEW_TOP] = q
    np.testing.assert_allclose(out, wanted, atol=1e-9)
    np.testing.assert_array_equal(cal.calibrate(NEW), out)
    np.testing.assert_array_equal(cal.predict(NEW), out.argmax(axis=1))
    assert len(cal.curves_) == 1
    assert cal.classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("transform", ["auto", "identity"])
def test_logits_are_probabilities_first(transform):
    shift = RNG.normal(0.0, 9.0, (3000, 1))
    cal = top(transform=transform).fit(LOGITS + shift, Y)
    np.testing.assert_allclose(cal.predict_proba(np.log(NEW)), top().fit(P, Y).predict_proba(NEW), atol=1e-9)
    masked = np.column_stack([LOGITS, np.full(3000, -1e9)])
    out = top(transform=transform).fit(masked, Y).predict_proba(masked)
    np.testing.assert_allclose(out[:, :4], cal.predict_proba(LOGITS), atol=1e-9)


def test_limits_are_those_of_two_classes_and_the_others_move_with_them():
    cal, binary = top().fit(P, Y), SplineCalibrator().fit(PAIR, Y == TOP)
    band = cal.interval(NEW)
    np.testing.assert_allclose(band[NEW_ROWS, NEW_TOP], binary.interval(NEW_PAIR), atol=1e-9)
    # A step of the confidence to either side moves another class by as much as its limits say, if it is small.
    narrow, p, other = cal.interval(NEW, level=0.01), cal.predict_proba(NEW), (NEW_TOP + 1) % 4
    q, low = p[NEW_ROWS, NEW_TOP], narrow[NEW_ROWS, NEW_TOP, 0]
    moved = p[NEW_ROWS, other] * (1.0 - low) / (1.0 - q)
    np.testing.assert_allclose(narrow[NEW_ROWS, other, 1], moved, rtol=1e-5)
    assert np.all((band[..., 0] < p) & (p < band[..., 1]))


def test_groups_and_segments_are_those_of_two_classes():
    groups, country = ROWS // 3, np.where(ROWS % 2, "fr", "de")
    right = np.where((country == "fr") & (ROWS % 4 == 1), (TOP + 1) % 4, Y)
    cal = top().fit(P, right, groups=groups, by=country)
    binary = SplineCalibrator().fit(PAIR, right == TOP, groups=groups, by=country)
    assert cal.design_effect_ == pytest.approx(binary.design_effect_)
    by = np.resize(["fr", "de"], 200)
    np.testing.assert_allclose(
        cal.predict_proba(NEW, by=by)[NEW_ROWS, NEW_TOP], binary.predict_proba(NEW_PAIR, by=by)[:, 1], atol=1e-9
    )
    np.testing.assert_allclose(cal.interval(NEW, by=by)[NEW_ROWS, NEW_TOP], binary.interval(NEW_PAIR, by=by), atol=1e-9)
    assert list(cal.segments_["segment"]) == ["de", "fr"]


@pytest.mark.parametrize("options", [{}, {"transform": "identity"}, {"loss": "brier"}], ids=str)
def test_what_is_always_right_or_never_has_the_rule_of_succession(options):
    np.testing.assert_allclose(top(**options).fit(P, TOP).predict_proba(NEW).max(axis=1), 3001 / 3002)
    with pytest.warns(UserWarning, match="less often than by chance"):
        cal = top(**options).fit(P, (TOP + 1) % 4)
    np.testing.assert_allclose(cal.predict_proba(NEW)[NEW_ROWS, NEW_TOP], 1 / 3002)
    assert top(**options).fit(P, TOP, groups=ROWS // 3).design_effect_ == pytest.approx(3.0)


def test_a_row_that_is_certain_leaves_the_others_equal_shares():
    out = top().fit(P, Y).predict_proba([[0.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    assert np.all(out > 0.0)
    np.testing.assert_allclose(out.sum(axis=1), 1.0)
    np.testing.assert_allclose(out[0, [0, 2, 3]], out[0, 0])
    assert out[1, 0] != out[1, 1]  # of a tie, the first is the answer


@pytest.mark.parametrize("size", [64, 1000, 3000])
@pytest.mark.parametrize("scores", [P, LOGITS], ids=["probabilities", "logits"])
def test_batches_are_summed_without_a_sample(scores, size):
    batches = [(scores[i : i + size], Y[i : i + size]) for i in range(0, 3000, size)]
    cal = top(transform="identity" if scores is LOGITS else "auto").fit_batches(batches, max_rows=100)
    assert (cal.rows_seen_, cal.rows_kept_) == (3000, 100)
    np.testing.assert_allclose(cal.predict_proba(scores), top().fit(scores, Y).predict_proba(scores), atol=1e-9)


@pytest.mark.parametrize("scores", [P, LOGITS], ids=["probabilities", "logits"])
def test_a_file_has_one_curve(tmp_path, scores):
    cal = top().fit(scores, Y)
    save(cal, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict_proba(scores), cal.predict_proba(scores))
    np.testing.assert_array_equal(again.interval(scores[:9]), cal.interval(scores[:9]))
    described = cal.to_dict()
    described["parameters"]["multiclass"] = "ovr"
    with pytest.raises(ValueError, match="curves must be one for two classes"):
        SplineCalibrator.from_dict(described)


def test_a_change_of_the_option_changes_no_fit():
    cal = top().fit(P, Y)
    wanted = cal.predict_proba(NEW)
    np.testing.assert_array_equal(cal.set_params(multiclass="ovr").predict_proba(NEW), wanted)


def test_frames_the_wrapper_and_a_shift_know_it():
    pd = pytest.importorskip("pandas")
    from sklearn.linear_model import LogisticRegression

    names = list("abcd")
    frame = pd.DataFrame(P, columns=names).assign(y=np.array(names)[Y])
    cal = fit_frame(frame, score=names, label="y", multiclass="top")
    wanted = top().fit(P, Y).predict_proba(P)
    np.testing.assert_allclose(cal.predict_proba(P), wanted, atol=1e-9)
    applied = apply_frame(frame, cal, score=names)
    np.testing.assert_allclose(applied[[f"calibrated_{name}" for name in names]], wanted, atol=1e-9)

    model = CalibratedClassifierCV(LogisticRegression(), method=top(), cv=3).fit(LOGITS[:500], Y[:500])
    np.testing.assert_allclose(model.predict_proba(LOGITS).sum(axis=1), 1.0)

    shifted = cal.shifted(kept={"a": 0.5, "b": 1.0, "c": 1.0, "d": 1.0})
    odds = wanted * [2.0, 1.0, 1.0, 1.0]
    np.testing.assert_allclose(shifted.predict_proba(P), odds / odds.sum(axis=1, keepdims=True), atol=1e-9)


def test_the_command_line_knows_it(tmp_path, capsys):
    lines = [",".join(map(repr, map(float, row))) + f",{y}" for row, y in zip(P[:400], Y[:400], strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["0,1,2,3,y", *lines]))
    given = [str(tmp_path / "rows.csv"), "--label", "y", "--score", "0,1,2,3", "--multiclass", "top"]
    assert main(["fit", *given, "-o", str(tmp_path / "model.json")]) == 0
    capsys.readouterr()
    model = json.loads((tmp_path / "model.json").read_text())
    assert model["parameters"]["multiclass"] == "top"
    np.testing.assert_allclose(
        load(tmp_path / "model.json").predict_proba(NEW), top().fit(P[:400], Y[:400]).predict_proba(NEW), atol=1e-9
    )


def test_the_command_line_has_the_choices_of_the_calibrator():
    for choice in SplineCalibrator._parameter_constraints["multiclass"].choices:
        assert parser().parse_args(["fit", "rows.csv", "-o", "m.json", "--multiclass", choice]).multiclass == choice


def test_one_curve_is_drawn_and_told():
    pytest.importorskip("matplotlib")
    from calspline.display import CalibrationCurveDisplay

    cal = top().fit(P, Y)
    assert [curve.name for curve in CalibrationCurveDisplay.from_calibrator(cal).curves] == ["top class"]
    assert cal.summary().count("\n") == 1
