"""Calibrators fitted with segments, executed in every language: each agrees with ``calibrate(scores, by=...)``."""

import functools
import json
import warnings

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from calspline import CalibratedClassifierCV, SplineCalibrator, export
from calspline.export.formulas import formula_of

N, ROWS = 4000, 600
rng = np.random.default_rng(3)

TEXTS = ["de", "fr", 'é"\\?</script>', "", "pt br", "zz"]
CODES, DEVICES = rng.integers(0, 6, N), rng.integers(0, 3, N)
LOG_ODDS = rng.normal(-0.3, 2.0, N)
EFFECT = (
    rng.normal(0.0, 0.8, 6)[CODES]
    + 0.5 * DEVICES
    + rng.normal(0.0, 0.3, 6)[CODES] * LOG_ODDS
)
BEND = rng.normal(0.0, 1.0, 6)[CODES] * np.sin(2.0 * LOG_ODDS)
HAPPENED = rng.random(N) < expit(LOG_ODDS + EFFECT + BEND)
SCORES = expit(LOG_ODDS)
LOGITS = rng.normal(0.0, 2.0, (N, 3))
SHIFTS = rng.normal(0.0, 1.0, (6, 3))[CODES]
CLASSES = (
    LOGITS * (1.0 + 0.3 * DEVICES[:, None]) + SHIFTS + rng.gumbel(size=(N, 3))
).argmax(axis=1)
MATRIX = softmax(LOGITS, axis=1)

BY = {
    "texts": [np.array(TEXTS)[CODES]],
    "integers": [CODES * 10**12 - 3],
    "booleans": [CODES > 2],
    "fractions": [CODES / 4.0],
    "two columns": [np.array(TEXTS)[CODES], DEVICES],
}
FITS = {
    "probabilities": (SplineCalibrator(), SCORES, HAPPENED),
    "margins": (SplineCalibrator(scale="identity"), LOG_ODDS, HAPPENED),
    "equal scores": (SplineCalibrator(), np.full(N, 0.5), HAPPENED),
    "no effects": (SplineCalibrator(), SCORES, np.arange(N) % 2 == 0),
    "one-vs-rest": (SplineCalibrator(multiclass="ovr"), MATRIX, CLASSES),
    "one-vs-rest of logits": (SplineCalibrator(multiclass="ovr"), LOGITS, CLASSES),
    "structured": (SplineCalibrator(), MATRIX, CLASSES),
    "structured of logits": (SplineCalibrator(), LOGITS, CLASSES),
    "temperatures": (SplineCalibrator(monotone=True), MATRIX, CLASSES),
    "structured without effects": (SplineCalibrator(), MATRIX, MATRIX.argmax(axis=1)),
}
CASES = [(fit, "texts") for fit in FITS] + [
    ("probabilities", by) for by in BY if by != "texts"
]
CASES += [("one-vs-rest", "two columns"), ("structured", "two columns")]


class Case:
    """A calibrator, rows with segments, some of them new or none, and what Python makes of them."""

    def __init__(self, fit, by):
        calibrator, scores, y = FITS[fit]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.calibrator = SplineCalibrator(**calibrator.get_params()).fit(
                scores, y, by=BY[by]
            )
            self.scores = np.concatenate([scores[: ROWS - 2], far(scores)])
            self.by = [column[:ROWS].tolist() for column in BY[by]]
            for c, column in enumerate(self.by):
                column[c::5] = ["?" if isinstance(column[0], str) else 7] * len(
                    column[c::5]
                )
            self.expected = self.calibrator.calibrate(
                self.scores, by=self.by if len(self.by) > 1 else self.by[0]
            )


def far(scores):
    """Scores at the end of their range."""
    if scores.ndim == 2:
        return np.eye(3)[:2] * (1e6 if scores.max() > 1.0 else 1.0)
    return np.array([-1e300, 1e9] if scores.max() > 1.0 else [0.0, 1.0])


cached = functools.cache(Case)


SPANNING = [
    ("probabilities", "texts"),
    ("margins", "texts"),
    ("one-vs-rest of logits", "texts"),
    ("structured", "texts"),
    ("temperatures", "texts"),
    ("probabilities", "integers"),
    ("probabilities", "fractions"),
    ("structured", "two columns"),
]
"""What is run by Node and compiled."""


@pytest.fixture(params=CASES, ids=" by ".join)
def case(request):
    return cached(*request.param)


def test_python_agrees(case, python):
    calibrate = python(export.to_python(case.calibrator))
    got = [
        calibrate(score, *by)
        for score, *by in zip(case.scores.tolist(), *case.by, strict=True)
    ]
    np.testing.assert_allclose(got, case.expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("case", SPANNING, indirect=True, ids=" by ".join)
def test_javascript_agrees(case, node):
    got = node(export.to_javascript(case.calibrator), case.scores.tolist(), *case.by)
    np.testing.assert_allclose(got, case.expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("case", SPANNING, indirect=True, ids=" by ".join)
def test_c_agrees(case, gcc, tmp_path):
    by = [("const char *", [c_text(v) for v in column]) if isinstance(column[0], str)
          else ("double", [repr(float(v)) for v in column]) if isinstance(column[1], float)
          else ("long long", [repr(int(v)) for v in column]) for column in case.by]  # fmt: skip
    got = gcc(export.to_c(case.calibrator), case.scores, tmp_path, by)
    np.testing.assert_allclose(got, case.expected, rtol=0.0, atol=1e-9)


def c_text(label):
    return '"' + "".join(f"\\{byte:03o}" for byte in label.encode()) + '"'


def run_onnx(model, scores, by):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = [each.name for each in session.get_inputs()[1:]]
    columns = [
        np.array(column, dtype=object if isinstance(column[0], str) else np.int64)
        for column in by
    ]
    return session.run(
        None, {"scores": scores} | dict(zip(wanted, columns, strict=True))
    )[0]


@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-9), ("float32", 1e-5)])
def test_onnx_agrees(case, dtype, atol):
    pytest.importorskip("onnx")
    if isinstance(case.by[0][1], float):
        with pytest.raises(
            ValueError, match="segments must all be texts or all be integers for ONNX"
        ):
            export.to_onnx(case.calibrator, dtype=dtype)
        return
    scores, expected = case.scores, case.expected
    if scores.ndim == 1:
        scores = (
            scores[:, None]
            if case.calibrator.model_.kind.value_kind == "margin"
            else np.column_stack([1.0 - scores, scores])
        )
        expected = np.column_stack([1.0 - expected, expected])
    with np.errstate(over="ignore"):
        given = scores.clip(-1e30, 1e30).astype(dtype)
    got = run_onnx(export.to_onnx(case.calibrator, dtype=dtype), given, case.by)
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=atol)


@pytest.mark.parametrize(
    "how", ["eager", pytest.param("export", marks=pytest.mark.slow)]
)
def test_torch_agrees(case, how):
    torch = pytest.importorskip("torch")
    module = export.to_torch(case.calibrator)
    scores, codes = (
        torch.from_numpy(case.scores),
        module.codes(case.by if len(case.by) > 1 else case.by[0]),
    )
    if how == "export":
        shapes = (
            {0: torch.export.Dim.DYNAMIC},
            {codes.dim() - 1: torch.export.Dim.DYNAMIC},
        )
        module = torch.export.export(
            module, (scores[:7], codes[..., :7].contiguous()), dynamic_shapes=shapes
        ).module()
    np.testing.assert_allclose(
        module(scores, codes).numpy(), case.expected, rtol=0.0, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore:.* that the fit has not seen")
def test_torch_agrees_in_float32(case):
    torch = pytest.importorskip("torch")
    with np.errstate(over="ignore"):
        scores = case.scores.astype(np.float32)
    kept = np.isfinite(scores).reshape(len(scores), -1).all(axis=1)
    by = [
        [label for label, keep in zip(column, kept, strict=True) if keep]
        for column in case.by
    ]
    by = by if len(by) > 1 else by[0]
    module = export.to_torch(case.calibrator, dtype=torch.float32)
    got = module(torch.from_numpy(scores[kept]), module.codes(by))
    assert got.dtype == torch.float32
    expected = case.calibrator.calibrate(scores[kept], by=by)
    np.testing.assert_allclose(got.numpy(), expected, rtol=0.0, atol=2e-5)


@pytest.mark.parametrize(
    ("fit", "columns"), [("probabilities", 2), ("structured", 3), ("one-vs-rest", 3)]
)
def test_torch_takes_a_segment_for_each_image_or_pixel(fit, columns):
    torch = pytest.importorskip("torch")
    cal = cached(fit, "texts").calibrator
    images = torch.softmax(torch.randn(4, columns, 2, 3, dtype=torch.float64), dim=1)
    rows = images.movedim(1, -1).reshape(-1, columns).numpy()
    by = np.array(["de", "fr", "?", "zz"])
    module = export.to_torch(cal, dim=1)
    with pytest.warns(UserWarning, match="that the fit has not seen"):
        expected = cal.predict_proba(rows, by=np.repeat(by, 6)).reshape(
            4, 2, 3, columns
        )
    for codes in (module.codes(by), module.codes(np.repeat(by, 6)).reshape(4, 2, 3)):
        got = module(images, codes).movedim(1, -1).numpy()
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9)


def test_gradients_flow_through_calibrate_with_segments():
    torch = pytest.importorskip("torch")
    cal = cached("probabilities", "texts").calibrator
    scores = torch.linspace(0.1, 0.9, 6, dtype=torch.float64, requires_grad=True)
    p = cal.calibrate(scores, by=TEXTS)
    np.testing.assert_allclose(
        p.detach().numpy(), cal.calibrate(scores.detach().numpy(), by=TEXTS), atol=1e-9
    )
    p.sum().backward()
    step = 1e-6 * np.array([[-1.0], [1.0]])
    low, high = (
        cal.calibrate(scores.detach().numpy() + each, by=TEXTS) for each in step
    )
    np.testing.assert_allclose(scores.grad.numpy(), (high - low) / 2e-6, rtol=1e-5)


def test_without_a_segment_all_rows_are_of_new_ones(python, node):
    cal = cached("probabilities", "two columns").calibrator
    expected = cal.calibrate([0.2, 0.7])
    calibrate = python(export.to_python(cal))
    np.testing.assert_allclose(
        [calibrate(0.2), calibrate(0.7, None, float("nan"))], expected, atol=1e-12
    )
    np.testing.assert_allclose(
        node(export.to_javascript(cal), [0.2, 0.7]), expected, atol=1e-12
    )
    torch = pytest.importorskip("torch")
    got = export.to_torch(cal)(torch.tensor([0.2, 0.7], dtype=torch.float64))
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


def test_javascript_takes_true_for_one(node):
    cal = cached("probabilities", "booleans").calibrator
    got = node(export.to_javascript(cal), [0.3] * 4, [True, 1, False, 0])
    np.testing.assert_allclose(
        got, cal.calibrate([0.3] * 4, by=[True, True, False, False]), atol=1e-12
    )


def test_c_takes_null_and_nan_for_no_segment(gcc, tmp_path):
    cal = cached("probabilities", "texts").calibrator
    got = gcc(export.to_c(cal), [0.3], tmp_path, [("const char *", ["0"])])
    np.testing.assert_allclose(got, cal.calibrate([0.3]), atol=1e-12)
    cal = cached("probabilities", "fractions").calibrator
    got = gcc(export.to_c(cal), [0.3], tmp_path, [("double", ["NAN"])])
    np.testing.assert_allclose(got, cal.calibrate([0.3]), atol=1e-12)


def test_a_shifted_calibrator_takes_its_segments_along(python):
    cal = cached("probabilities", "texts").calibrator.shifted(base_rate=0.1)
    calibrate = python(export.to_python(cal))
    got = [calibrate(0.4, by) for by in TEXTS]
    np.testing.assert_allclose(
        got, cal.calibrate([0.4] * 6, by=TEXTS), rtol=0.0, atol=1e-9
    )


def test_no_label_ends_a_script():
    assert "</script" not in export.to_javascript(
        cached("probabilities", "texts").calibrator
    )


@pytest.fixture(scope="module")
def few():
    """A calibrator by labels of one's choice."""

    def fit(labels):
        by = [labels[i % len(labels)] for i in range(400)]
        return SplineCalibrator().fit(SCORES[:400], HAPPENED[:400], by=by)

    return fit


def test_labels_that_a_language_lacks_are_an_error(few):
    pytest.importorskip("onnx")
    mixed, large = few(["a", 1]), few([2**70, 1])
    with pytest.raises(
        ValueError,
        match="segments must all be texts or all be numbers for this language",
    ):
        export.to_c(mixed)
    with pytest.raises(
        ValueError, match="segments must all be texts or all be integers for ONNX"
    ):
        export.to_onnx(mixed)
    with pytest.raises(
        ValueError, match=f"segments must be integers that C has; {2**70} is too large"
    ):
        export.to_c(large)
    with pytest.raises(
        ValueError,
        match=f"segments must be integers that JavaScript has; {2**70} is too large",
    ):
        export.to_javascript(large)
    with pytest.raises(
        ValueError,
        match=f"segments must be integers that ONNX has; {2**70} is too large",
    ):
        export.to_onnx(large)
    with pytest.raises(ValueError, match="without a null character"):
        export.to_c(few(["a\0b", "c"]))
    with pytest.raises(
        TypeError, match="segments of type date have no export; use texts or numbers"
    ):
        export.to_python(
            few(list(np.array(["2024-01-01", "2025-01-01"], dtype="datetime64[D]")))
        )
    with pytest.raises(
        ValueError, match="segments must be finite to be exported; got inf"
    ):
        export.to_python(few([1.0, float("inf")]))


def test_mixed_labels_run_where_the_language_has_them(few, python, node):
    cal = few(["1", 1, True, 2.5])
    by, expected = ["1", 1, 2.5], cal.calibrate([0.4] * 3, by=["1", 1, 2.5])
    calibrate = python(export.to_python(cal))
    np.testing.assert_allclose(
        [calibrate(0.4, each) for each in by], expected, atol=1e-12
    )
    np.testing.assert_allclose(
        node(export.to_javascript(cal), [0.4] * 3, by), expected, atol=1e-12
    )


def test_a_label_of_another_type_is_an_error_or_nan_and_a_missing_one_is_new(
    python, node
):
    """As for ``calibrate``: nobody means 1 by "1"."""
    for labels, odd in (
        (["0", "1"], 1),
        ([0, 1], "1"),
        ([False, True], "true"),
        ([0.5, 1.5], "1.5"),
    ):
        cal = SplineCalibrator().fit(
            SCORES[:400], HAPPENED[:400], by=[labels[i % 2] for i in range(400)]
        )
        calibrate = python(export.to_python(cal))
        with pytest.raises(
            TypeError, match=r"by must be a (text|number), as in fit; got"
        ):
            calibrate(0.4, odd)
        with pytest.raises(
            TypeError, match="by must have labels like those of the fit"
        ):
            export.to_torch(cal).codes([odd])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = cal.calibrate([0.4], by=[None])[0]
        assert calibrate(0.4) == pytest.approx(new, abs=1e-12)
        assert calibrate(0.4, float("nan")) == pytest.approx(new, abs=1e-12)
        got = node(export.to_javascript(cal), [0.4] * 2, [odd, None])
        np.testing.assert_allclose(got, [np.nan, new], atol=1e-12)


@pytest.mark.parametrize("ensemble", [False, True])
def test_onnx_of_a_classifier_has_its_segments_as_a_second_input(ensemble):
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    X = np.column_stack([LOG_ODDS, rng.normal(size=N), CODES])
    model = CalibratedClassifierCV(
        LogisticRegression(), by=2, cv=3, ensemble=ensemble
    ).fit(X, HAPPENED)
    session = runtime.InferenceSession(
        export.to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    assert [each.name for each in session.get_inputs()] == ["features", "by"]
    [got] = session.run(None, {"features": X[:500], "by": CODES[:500]})
    np.testing.assert_allclose(got, model.predict_proba(X[:500]), rtol=0.0, atol=1e-6)


def test_a_formula_has_the_labels_and_the_numbers_of_each_segment():
    formula = formula_of(cached("one-vs-rest", "two columns").calibrator)
    first, second = formula.lookups
    assert sorted(first.labels) == sorted(TEXTS)
    assert second.labels == [0, 1, 2]
    assert first.numbers["new_0"].tolist() == [0.0] * 6 + [1.0]
    assert first.numbers["effect_0_0"].shape == (7, 3)
    assert json.dumps(first.labels)
