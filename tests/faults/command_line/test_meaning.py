"""What scores, columns, weights and groups mean to the command is never changed in silence."""

import numpy as np
import pytest
from tests.faults.command_line.conftest import table
from tests.faults.frames.conftest import binary, ternary

import calspline

METHODS = pytest.mark.parametrize("method", ["spline", "isotonic"])


@pytest.fixture
def notes(run, tmp_path):
    """A fit that works, and says something on standard error."""

    def call(content, *words, options=()):
        (tmp_path / "data.csv").write_text(content)
        found = run("fit", "data.csv", "-o", "model.json", "--force", *options)
        assert found.code == 0, found.err
        assert "note:" in found.err
        for word in words:
            assert word in found.err
        return calspline.load(tmp_path / "model.json")

    return call


def text(names, *columns):
    return table(
        *(
            ",".join(map(str, row))
            for row in zip(*(c.tolist() for c in columns), strict=True)
        ),
        names=names,
    )


@METHODS
def test_03a_rounding_is_clipped(fits, done, tmp_path, method):
    data = binary()
    curves = []
    for ends in ([0.0, 1.0], [-9e-5, 1 + 1e-12]):
        data["p"][:2] = ends
        model = fits(text("score,label", data["p"], data["y"]), "--method", method)
        assert model.model_.kind.value_kind == "probability"
        curves.append(model.calibrate(np.linspace(0, 1, 21)))
        done("apply", "model.json", "data.csv", "-o", "out.csv", "--force")
        curves.append(
            np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)[:2, -1]
        )
    np.testing.assert_allclose(curves[2], curves[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(curves[3], curves[1], rtol=0, atol=1e-9)


@METHODS
def test_03c_reversed_scores_are_fitted_with_a_note(notes, method):
    data = binary(600)
    options = ("--method", method)
    notes(
        text("score,label", data["p"], 1 - data["y"]),
        "scores are lower where the class is 1",
        options=options,
    )


def test_29a_labels_from_1_with_a_class_absent_do_not_shift_columns(refuses, fits):
    a, b, c, y = ternary().values()
    y = np.where(y == 2, 1, y) + 1
    refuses(
        text("p_x,p_y,p_z,label", a, b, c, y), "from 0 to 2 or from 1 to 3", "--classes"
    )
    named = fits(text("p_3,p_1,p_2,label", c, a, b, y))
    told = fits(text("p_x,p_y,p_z,label", a, b, c, y), "--classes", "1,2,3")
    assert named.classes_.tolist() == told.classes_.tolist() == [1, 2, 3]
    p = np.column_stack([a, b, c])
    np.testing.assert_allclose(
        named.predict_proba(p), told.predict_proba(p), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize(
    "labels", [["0", "1"], ["0.0", "1.0"], ["false", "true"]], ids=str
)
@pytest.mark.parametrize("names", ["p_1,p_0", "p_1.0,p_0.0", "p_true,p_false"])
def test_29b_columns_are_named_by_value(fits, labels, names):
    p, y, _ = binary().values()
    model = fits(text(f"{names},label", p, 1 - p, np.array(labels)[y]))
    grid = np.linspace(0, 1, 21)
    expected = calspline.SplineCalibrator().fit(p, y)
    np.testing.assert_allclose(
        model.calibrate(grid), expected.calibrate(grid), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("scale", ["auto", "identity"])
def test_29d_a_matrix_of_features_is_refused(refuses, scale):
    X = np.random.default_rng(0).normal(size=(200, 6))
    content = text("a,b,c,d,e,f,label", *X.T, (X[:, 0] > 0.0).astype(int))
    options = ("--score", "a,b,c,d,e,f", "--scale", scale)
    word = "CalibratedClassifierCV" if scale == "identity" else "rows are outside"
    refuses(content, word, options=options)


def test_29c_shuffled_columns_get_a_note(notes):
    a, b, c, y = ternary(600).values()
    options = ("--score", "u,v,w")
    notes(
        text("u,v,w,label", b, c, a, y),
        "right in",
        "less often than by chance",
        options=options,
    )


def groups(column):
    data = binary()
    return text("score,label,g", data["p"], data["y"], column)


GROUP = ("--group", "g")


def test_54a_missing_groups(refuses):
    column = (np.arange(200) // 2).astype(object)
    column[7] = ""
    refuses(groups(column), "'g'", "missing", "row 8", "--missing drop", options=GROUP)


def test_54d_a_model_with_segments_says_that_a_table_has_none(run, tmp_path):
    data = binary()
    (tmp_path / "data.csv").write_text(text("score,label", data["p"], data["y"]))
    cal = calspline.SplineCalibrator().fit(data["p"], data["y"], by=np.arange(200) % 3)
    calspline.save(cal, tmp_path / "model.json")
    found = run("apply", "model.json", "data.csv", "-o", "out.csv")
    assert "segments" in found.err
    assert found.err.count("\n") == 1
