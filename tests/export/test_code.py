import runpy
import subprocess
import sys
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import calspline.export
from calspline import SplineCalibrator
from calspline.export import to_c, to_javascript, to_python

PRECISION = 1e-9


def test_python_source_agrees(case, python):
    calibrate = python(to_python(case.calibrator))
    got = np.array([calibrate(score) for score in case.scores.tolist()])
    np.testing.assert_allclose(got, case.expected, rtol=0.0, atol=PRECISION)


def test_javascript_sources_agree(spanning, node):
    for case in spanning:
        got = node(to_javascript(case.calibrator), case.scores.tolist())
        np.testing.assert_allclose(
            got, case.expected, rtol=0.0, atol=PRECISION, err_msg=case.name
        )


def test_c_sources_agree_and_compile_without_a_warning(spanning, compiled, tmp_path):
    sources = [to_c(case.calibrator) for case in spanning]
    scores = [case.scores for case in spanning]
    found = compiled(sources, scores, tmp_path, [()] * len(spanning))
    for case, got in zip(spanning, found, strict=True):
        np.testing.assert_allclose(
            got, case.expected, rtol=0.0, atol=PRECISION, err_msg=case.name
        )


def test_the_matrix_of_many_classes_and_its_diagonal_are_written(
    node, gcc, tmp_path, python
):
    rng = np.random.default_rng(3)
    logits = rng.normal(0.0, 2.0, (1500, 12))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    calibrator = SplineCalibrator().fit(1.5 * logits, labels)
    diagonal = _with_diagonal(calibrator)
    for each in (calibrator, diagonal):
        rows, expected = logits[:50], each.calibrate(logits[:50])
        calibrate = python(to_python(each))
        for got in (
            np.array([calibrate(row) for row in rows.tolist()]),
            node(to_javascript(each), rows.tolist()),
            gcc(to_c(each), rows, tmp_path),
        ):
            np.testing.assert_allclose(got, expected, rtol=0.0, atol=PRECISION)


def _with_diagonal(calibrator):
    fitted = calibrator.model_.map
    diagonal = fitted.W.diagonal() + 0.1 * np.arange(len(fitted.W))
    changed = copy(calibrator)
    changed.model_ = replace(calibrator.model_, map=replace(fitted, W=diagonal))
    return changed


@pytest.mark.parametrize("score", [-0.5, -0.0002, 1.0002, float("nan"), float("inf")])
def test_what_is_no_probability_is_an_error_in_python_and_nan_elsewhere(
    fitted, node, gcc, tmp_path, score, python
):
    calibrator = fitted("logit")
    with pytest.raises(ValueError, match=r"p must be a probability in \[0, 1\]; got"):
        python(to_python(calibrator))(score)
    assert np.isnan(gcc(to_c(calibrator), [score], tmp_path)).all()
    if np.isfinite(score):  # JSON has no others
        assert np.isnan(node(to_javascript(calibrator), [score])).all()


@pytest.mark.parametrize("row", [[0.2, 0.3, 0.4], [1.2, -0.2, 0.0]])
@pytest.mark.parametrize("name", ["ovr", "structured", "softmax temperature"])
def test_rows_that_are_no_probabilities_are_an_error_in_python_and_nan_elsewhere(
    fitted, node, gcc, tmp_path, name, row, python
):
    calibrator = fitted(name)
    with pytest.raises(ValueError, match="p must be 3 probabilities that sum to one"):
        python(to_python(calibrator))(row)
    assert np.isnan(gcc(to_c(calibrator), [row], tmp_path)).all()
    assert np.isnan(node(to_javascript(calibrator), [row])).all()


def test_rows_of_another_length_are_refused(fitted, node, python):
    with pytest.raises(ValueError, match="p must be 3 probabilities"):
        python(to_python(fitted("ovr")))([0.5, 0.5])
    assert np.isnan(node(to_javascript(fitted("ovr")), [[0.5, 0.5]])).all()


def test_javascript_takes_no_null_for_zero_and_no_string_for_a_number(fitted, node):
    assert np.isnan(node(to_javascript(fitted("logit")), [None, "0.5"])).all()


def test_a_margin_has_to_be_finite(fitted, python):
    with pytest.raises(ValueError, match="p must be a finite number; got inf"):
        python(to_python(fitted("identity")))(float("inf"))


@pytest.mark.parametrize(
    "label", ["*/ int x; /*", '"""', "\\", "a\nb", "é", "</script>", "??/"]
)
def test_a_label_cannot_break_out_of_its_comment(node, gcc, tmp_path, label, python):
    calibrator = SplineCalibrator().fit([0.1, 0.4, 0.6, 0.9], ["", label, "", label])
    expected = calibrator.calibrate([0.3])
    assert python(to_python(calibrator))(0.3) == pytest.approx(
        expected[0], abs=PRECISION
    )
    assert node(to_javascript(calibrator), [0.3]) == pytest.approx(
        expected, abs=PRECISION
    )
    assert gcc(to_c(calibrator), [0.3], tmp_path) == pytest.approx(
        expected, abs=PRECISION
    )


@pytest.mark.process
def test_python_source_runs_without_this_package_and_without_a_warning(
    fitted, tmp_path
):
    path = tmp_path / "calibrate.py"
    path.write_text(
        to_python(fitted("structured")) + "\nprint(sum(calibrate([0.2, 0.3, 0.5])))\n"
    )
    out = subprocess.run(
        [sys.executable, "-W", "error", "-I", "-S", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(out.stdout) == pytest.approx(1.0)


EVALUATORS = Path(calspline.export.__file__).parent / "evaluators"


@pytest.mark.parametrize(
    ("write", "file"),
    [
        (to_python, "calibrate.py"),
        (to_javascript, "calibrate.js"),
        (to_c, "calibrate.c"),
    ],
)
def test_an_export_is_a_file_of_this_package_and_tables(fitted, write, file):
    source = write(fitted("sigmoid"))
    evaluator = (EVALUATORS / file).read_text()
    assert evaluator in source
    assert len(source.replace(evaluator, "").splitlines()) < 30


@pytest.fixture
def functions():
    """The functions of Python's evaluator."""
    return runpy.run_path(str(EVALUATORS / "calibrate.py"))


def test_operations_on_rows(functions):
    row = [800.0, 0.0, -3.0]
    p = functions["softmax"](row)
    assert p == pytest.approx(softmax(row), abs=1e-15)
    assert min(p) > 0.0
    assert functions["log_softmax"](row) == pytest.approx(log_softmax(row), rel=1e-15)
    assert functions["normalize"]([1.0, 3.0]) == [0.25, 0.75]


def test_the_rest_of_the_most_probable_class_keeps_its_digits(functions):
    rest = functions["rest_of"]([1e-20, 1.0, 2e-20])
    assert rest == pytest.approx([1.0, 3e-20, 1.0], rel=1e-15, abs=0.0)


def test_log_odds_of_a_pair_are_known_at_both_ends(functions):
    assert functions["log_odds"](1.0, None) == pytest.approx(np.log(1e16))
    assert functions["log_odds"](1.0, 1e-40) == pytest.approx(np.log(1e40))
    assert functions["log_odds"](0.0, 1.0) == pytest.approx(np.log(1e-300))


def test_a_piece_begins_at_its_break(functions):
    pieces = [[0.0, *"abcd"], [0.0, *"efgh"], [2.0, *"ijkl"]]
    places = [functions["find_piece"](pieces, z) for z in (-1.0, 0.0, 1.0, 2.0, 1e301)]
    assert places == [(0, -1.0), (1, 0.0), (1, 1.0), (2, 0.0), (2, 1e300)]


@pytest.fixture
def with_type(fitted, monkeypatch):
    """A calibrator whose tables say that its map is of another type, and its scores."""

    def make(name, type_name):
        calibrator = fitted(name)
        map_class = type(calibrator.model_.map)
        known = map_class.table
        monkeypatch.setattr(
            map_class,
            "table",
            lambda self, kind: known(self, kind) | {"type": type_name},
        )
        scores = [0.3] if len(calibrator.classes_) == 2 else [[0.2, 0.3, 0.5]]
        return calibrator, scores

    return make


@pytest.mark.parametrize("name", ["sigmoid", "softmax temperature"])
def test_evaluators_refuse_a_map_that_they_do_not_know(
    name, with_type, python, node, gcc, tmp_path
):
    calibrator, scores = with_type(name, "rotation")
    with pytest.raises(ValueError, match="has no type 'rotation'"):
        python(to_python(calibrator))(scores[0])
    with pytest.raises(AssertionError, match="has no type rotation"):
        node(to_javascript(calibrator), scores)
    with pytest.raises(AssertionError, match="ROTATION"):  # it does not compile
        gcc(to_c(calibrator), scores, tmp_path)


@pytest.mark.parametrize(
    ("name", "type_name"), [("sigmoid", "rates"), ("softmax temperature", "curve")]
)
def test_c_gives_nan_for_a_map_in_the_place_of_another(
    name, type_name, with_type, gcc, tmp_path
):
    calibrator, scores = with_type(name, type_name)
    assert np.isnan(gcc(to_c(calibrator), scores, tmp_path)).all()


@pytest.mark.engine
@pytest.mark.parametrize("classes", [2, 3])
def test_the_evaluator_of_c_compiles_without_a_warning(find_program, tmp_path, classes):
    settings = ["COLUMNS=1", "SCORES=MARGIN", "LOW=0.0", "HIGH=1.0"]
    kinds = ["TEXT_SEGMENTS", "INTEGER_SEGMENTS", "NUMBER_SEGMENTS"]
    command = [
        find_program("gcc"),
        *[f"-D{each}" for each in [f"CLASSES={classes}", *settings, *kinds]],
        *["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wno-unused-function"],
        *["-c", str(EVALUATORS / "calibrate.c"), "-o", str(tmp_path / "out.o")],
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")


@pytest.mark.parametrize("write", [to_python, to_javascript, to_c])
def test_what_is_unfitted_or_no_calibrator_is_an_error(write):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        write(SplineCalibrator())
    with pytest.raises(TypeError, match="calibrator must be one of SplineCalibrator"):
        write("a curve")


@pytest.mark.engine
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-ffinite-math-only"])
@pytest.mark.parametrize("name", ["logit", "structured"])
def test_c_refuses_to_be_compiled_where_nan_would_get_a_probability(
    fitted, find_program, tmp_path, name, flag
):
    source = tmp_path / "calibrate.c"
    source.write_text(to_c(fitted(name)))
    command = [
        find_program("gcc"),
        flag,
        "-c",
        str(source),
        "-o",
        str(tmp_path / "calibrate.o"),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode != 0
    assert "compile without -ffast-math" in built.stderr
