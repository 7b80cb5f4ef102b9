"""An export from outside this package: numpy source, written from the formula that every calibrator has."""

import inspect

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from calspline.export import Syntax, formula_of
from calspline.expression import Constant, name

HEADER = """
import numpy as np

def cubic(z, breaks, cubics):
    piece = np.searchsorted(breaks, z, side="right")
    t, (a, b, c, d) = z - np.append(breaks[0], breaks)[piece], np.array(cubics).T[:, piece]
    return ((a * t + b) * t + c) * t + d

def normalise(q):
    return q / q.sum()

def centred(y):
    return y - y.max()

def softmax(y):
    return normalise(np.exp(np.maximum(centred(y), -300.0)))

def log_softmax(y):
    return centred(y) - np.log(np.exp(centred(y)).sum())

def complement(p):
    is_top = np.arange(len(p)) == p.argmax()
    return np.where(is_top, p[~is_top].sum(), 1.0 - p)

def top(p, of_top):
    is_top = np.arange(len(p)) == p.argmax()
    q, others = of_top(p.max(), p[~is_top].sum()), np.maximum(p, 1e-30)
    return np.where(is_top, q, (1.0 - q) * others / others[~is_top].sum())
"""
NAMES = {"max": "np.maximum", "min": "np.minimum", "abs": "np.abs", "rest": "complement"} | {
    "log": "np.log", "exp": "np.exp", "asinh": "np.arcsinh",
}  # fmt: skip


def to_numpy(calibrator):
    """A function of a score, or of a row of them."""
    formula = formula_of(calibrator)
    return HEADER + "\n\n".join(function("calibrate", formula.program))


def function(title, program):
    """The source of a program, after those of the programs that it calls."""
    before, lines = [], []
    for step, value in [*program.steps, ("result", program.result)]:
        if value.operation == "classes":
            rows = dict(zip(("p", "rest"), [str(row.value) for row in value.arguments], strict=False))
            items = []
            for j, one in enumerate(value.value):
                before += function(f"class_{j}", one)
                items.append(f"class_{j}({', '.join(f'{a}={rows[a]}[{j}]' for a in one.arguments)})")
            lines.append(f"{step} = np.array([{', '.join(items)}])")
        elif value.operation == "top":
            before += function("of_top", value.value[0])
            lines.append(f"{step} = top({value.arguments[0].value}, of_top)")
        else:
            lines.append(f"{step} = {written(value)}")
    body = "\n".join(f"    {line}" for line in [*lines, "return result"])
    return [*before, f"def {title}(p=None, rest=None):\n{body}\n"]


def written(value):
    """An expression; numpy works class by class of its own accord."""
    if value.operation == "matrix":
        return f"np.array({value.value.values}) @ {value.arguments[0].value}"
    if value.on_rows:
        return f"{NAMES.get(value.operation, value.operation)}({value.arguments[0].value})"
    syntax = Syntax(
        number=repr,
        functions=NAMES,
        choice="np.where(({low} <= {value}) & ({value} <= {high}), {inside}, {outside})",
        cubic=lambda z, pieces: f"cubic({z}, {pieces.breaks}, {pieces.coefficients})",
    )
    return syntax.write(value.given({}, lambda row: name(f"np.array({row.values})")))


def test_it_agrees_with_python_for_every_calibrator(case):
    code = {}
    exec(to_numpy(case.calibrator), code)
    scores = case.scores[:: max(1, len(case.scores) // 500)]
    got = np.array([code["calibrate"](score) for score in scores])
    np.testing.assert_allclose(got, case.calibrator.calibrate(scores), rtol=0.0, atol=1e-9)


def test_it_takes_less_than_ninety_lines():
    sources = [HEADER, *map(inspect.getsource, (to_numpy, function, written))]
    assert sum(len(source.splitlines()) for source in sources) < 90


def test_what_has_no_formula_is_an_error_that_lists_what_has():
    calibrator = LogisticRegression().fit([[0.2], [0.8]], [0, 1])
    with pytest.raises(TypeError, match="calibrator must be one of SplineCalibrator, Sigmoid"):
        to_numpy(calibrator)


def test_a_constant_row_may_have_any_name():
    assert written(Constant("RATES", [0.5, 0.5]).expression) == "np.array([0.5, 0.5])"
