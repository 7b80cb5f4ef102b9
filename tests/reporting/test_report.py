import hashlib
import re

import numpy as np
import pytest
from scipy.special import softmax

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    evaluate,
    load,
    report,
    save,
)
from calspline._formatting import format_number, precise_percent
from calspline.reporting.charts import MAX_CLASSES


def test_the_file_is_the_page_and_is_small(binary):
    _, _, found = binary
    text = found.path.read_text(encoding="utf-8")
    assert text == found.html
    assert len(text.encode()) < 150_000
    assert [one.name for one in found.path.parent.iterdir()] == [found.path.name]


def test_no_path_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = report([0, 1, 0, 1], {"raw": [0.1, 0.8, 0.3, 0.6]})
    assert found.path is None
    assert list(tmp_path.iterdir()) == []
    assert str(found) == found.headline


def test_the_same_input_gives_the_same_page(binary):
    y, sets, _ = binary
    first, second = (report(y, sets, title="Twice").html for _ in range(2))
    assert first == second


def test_nothing_passed_in_is_changed(binary):
    y, sets, _ = binary
    before = y.copy(), {name: p.copy() for name, p in sets.items()}
    report(y, sets)
    np.testing.assert_array_equal(y, before[0])
    for name, p in sets.items():
        np.testing.assert_array_equal(p, before[1][name])


def test_a_weight_counts_as_that_many_rows(binary):
    y, sets, _ = binary
    y, sets = y[:600], {name: p[:600] for name, p in sets.items()}
    w = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = report(y, sets, sample_weight=w)
    repeated = report(
        np.repeat(y, w), {name: np.repeat(p, w) for name, p in sets.items()}
    )
    for name in sets:
        pair = (
            one.comparison.evaluations[name].log_loss for one in (weighted, repeated)
        )
        assert next(pair) == pytest.approx(next(pair), abs=1e-12)
    tail = "can be trusted|over-confident"
    assert (
        re.search(tail, weighted.headline).group()
        == re.search(tail, repeated.headline).group()
    )
    assert "weight" in weighted.html


def test_the_footer_has_versions_and_hashes_of_the_input(binary):
    y, sets, found = binary
    for array in (y.astype("<i8"), *(p.astype("<f8") for p in sets.values())):
        assert hashlib.sha256(array.tobytes()).hexdigest() in found.html
    assert f"numpy {np.__version__}" in found.html


def test_one_set_alone_has_no_difference_and_no_advice():
    y, p = [0, 1, 0, 1, 1, 0] * 20, [0.2, 0.7, 0.4, 0.9, 0.4, 0.1] * 20
    found = report(y, {"forest": p})
    assert "In numbers" in found.html
    assert "against forest" not in found.html
    assert 'class="advice' not in found.html
    assert format_number(evaluate(y, p).log_loss) in found.html


@pytest.mark.slow
def test_of_many_classes_those_that_cost_most_are_shown():
    rng = np.random.default_rng(0)
    m = MAX_CLASSES + 8
    p = rng.dirichlet(np.full(m, 0.5), 500)
    y = np.array([rng.choice(m, p=row) for row in p])
    found = report(y, {"raw": p})
    assert found.html.count('class="view"') == MAX_CLASSES + 1
    assert (
        f"the {MAX_CLASSES} of {m} classes whose miscalibration costs most"
        in found.html
    )
    several = report(y, {str(k): p for k in range(6)})
    assert len(several.html.encode()) < 2_000_000


CALIBRATORS = [
    SplineCalibrator,
    SigmoidCalibrator,
    IsotonicCalibrator,
    BetaCalibrator,
    TemperatureCalibrator,
    ClippingCalibrator,
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", CALIBRATORS, ids=lambda kind: kind.__name__)
def test_every_calibrator_is_told_of(binary, multiclass, kind):
    for y, sets, _ in (binary, multiclass):
        cal = kind().fit(sets["raw"], y)
        html = report(y, sets, calibrator=cal).html
        assert "How it was fitted" in html
        assert "The calibration curve" in html
        assert kind.__name__ in html


def test_a_calibrator_of_margins_is_drawn_over_its_own_range(binary):
    y, sets, _ = binary
    margins = np.log(sets["calibrated"] / (1 - sets["calibrated"]))
    html = report(y, sets, calibrator=SplineCalibrator().fit(margins, y)).html
    assert "The calibration curve" in html
    assert "on margins" in html


def test_a_beta_map_of_margins_has_no_curve_to_draw(binary):
    y, sets, _ = binary
    margins = np.log(sets["calibrated"] / (1 - sets["calibrated"]))
    html = report(y, sets, calibrator=BetaCalibrator().fit(margins, y)).html
    assert "The calibration curve" not in html
    assert "How it was fitted" in html


def test_margins_of_three_classes_have_no_curve_to_draw(multiclass):
    y, sets, _ = multiclass
    html = report(
        y, sets, calibrator=SplineCalibrator().fit(np.log(sets["raw"]), y)
    ).html
    assert "The calibration curve" not in html
    assert "How it was fitted" in html


def test_one_curve_per_class_is_told_of_class_by_class(multiclass):
    y, sets, _ = multiclass
    cal = SplineCalibrator(multiclass="ovr").fit(sets["raw"], y)
    html = report(y, sets, calibrator=cal).html
    assert f"<dd>{', '.join(f'{edf:.4g}' for edf in cal.edf_)}</dd>" in html


def test_it_says_where_a_curve_falls():
    rng = np.random.default_rng(0)
    p = rng.random(6000)
    y = rng.random(6000) < np.where(p < 0.6, p, 1.2 - p)
    falling, rising = (
        SplineCalibrator().fit(p, y),
        SplineCalibrator(monotone=True).fit(p, y),
    )
    (low, high), *_ = falling.curves_[0].falls()
    words = f"The curve falls from {low:.3g} to {high:.3g}"
    assert words in report(y, {"raw": p}, calibrator=falling).html
    assert f"falls from {low:.3g} to {high:.3g}" in falling.summary()
    assert "The curve falls" not in report(y, {"raw": p}, calibrator=rising).html


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_of_the_fit_are_recognized(n_classes, tmp_path):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    scores = softmax(2 * logits, axis=1)
    calibrator = SplineCalibrator().fit(scores[:300], y[:300])
    save(calibrator, tmp_path / "model.json")
    for model in (calibrator, load(tmp_path / "model.json")):
        own = {"own": calibrator.predict_proba(scores[:300])}
        with pytest.warns(UserWarning, match="the rows that the calibrator was fitted"):
            page = report(y[:300], own, calibrator=model).html
        assert "its measures are too optimistic" in page
        other = {"other": calibrator.predict_proba(scores[300:])}
        page = report(y[300:], other, calibrator=model).html
        assert "too optimistic" not in page


def test_the_summary_of_the_fit_is_quoted(binary):
    _, _, found = binary
    assert "SplineCalibrator for 2 classes, on probabilities" in found.html
    assert "effective degrees of freedom" in found.html


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"calibrator": "spline"},
            TypeError,
            "calibrator must be a fitted calibrator of calspline; got str",
        ),
        (
            {"calibrator": SplineCalibrator},
            TypeError,
            "calibrator must be a fitted calibrator.*got SplineCalibrator",
        ),
        ({"calibrator": SplineCalibrator()}, ValueError, "calibrator must be fitted"),
        ({"title": 3}, TypeError, "title must be a string; got int"),
        ({"sample_weight": [1.0]}, ValueError, "sample_weight"),
    ],
)
def test_a_wrong_argument_is_named(options, error, words):
    with pytest.raises(error, match=words):
        report([0, 1, 0, 1], {"raw": [0.1, 0.8, 0.3, 0.6]}, **options)


def test_a_calibrator_of_other_classes_is_an_error(multiclass):
    y, sets, _ = multiclass
    cal = SplineCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    with pytest.raises(
        ValueError,
        match="calibrator must have 3 classes, like the predictions; it has 2",
    ):
        report(y, sets, calibrator=cal)


def test_a_wrong_prediction_writes_no_file(tmp_path):
    with pytest.raises(
        ValueError,
        match=r'predictions\["raw"\] must be probabilities in \[0, 1\]; row 1',
    ):
        report([0, 1], {"raw": [0.5, 1.5]}, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError):
        report([0, 1], {"raw": [0.2, 0.7]}, tmp_path / "no" / "page.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([0, 1], [0.0, 1.0]),
        ([1, 0], [0.0, 1.0]),
        ([0, 1, 1], [0.5, 0.5, 0.5]),
        ([1], [0.3]),
        ([0, 0, 1], [1e-300, 1e-12, 1.0 - 1e-16]),
        ([False, True] * 3, [1.0] * 6),
    ],
)
def test_odd_predictions_still_give_a_page(y, p):
    html = report(y, {"raw": p, "again": p}).html
    assert "nan" not in re.sub(
        r"<script>.*", "", html, flags=re.DOTALL
    ).lower().replace("nance", "")
    assert "infinity" not in html.lower()


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "0.0%"),
        (1e-9, "< 0.001%"),
        (0.0004, "0.04%"),
        (0.5, "50.0%"),
        (0.99999, "99.999%"),
        (1 - 1e-9, "> 99.999%"),
    ],
)
def test_a_share_close_to_nothing_is_not_shown_as_nothing(share, shown):
    assert precise_percent(share) == shown
