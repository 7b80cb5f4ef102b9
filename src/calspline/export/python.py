"""Calibrators as Python source."""

from __future__ import annotations

import math
from typing import Any

from calspline.export._code import Tables, bracketed, joined, matrix, statements, title
from calspline.export._plan import Binary, Many, OneVsRest, Plan, Program, Structured, Temperature, domain, plan
from calspline.expression import Syntax
from calspline.multiclass.structured_map import SAFE_EXPONENT
from calspline.scores import ROW_SUM_TOLERANCE

CUBIC = '''\
def cubic(z, pieces):
    """Value at z of a curve in pieces: each has its start and four coefficients, highest power first."""
    start, a, b, c, d = pieces[bisect_right(pieces, z, 1, key=itemgetter(0)) - 1]
    t = z - start
    return ((a * t + b) * t + c) * t + d'''

SOFTMAX = '''\
def softmax(y):
    """Positive numbers that sum to one, in the proportions of exp(y)."""
    top = max(y)
    e = [math.exp(max(v - top, {least!r})) for v in y]
    total = sum(e)
    return [v / total for v in e]'''

LOG_SOFTMAX = '''\
def log_softmax(y):
    """Logarithms of probabilities in the proportions of exp(y)."""
    top = max(y)
    total = math.log(sum(math.exp(v - top) for v in y))
    return [v - top - total for v in y]'''


def to_python(calibrator: Any) -> str:
    """A fitted calibrator as Python source that needs only the standard library.

    The source defines ``calibrate``. For two classes it takes one score, the probability of ``classes_[1]`` or a
    margin, and returns the calibrated probability; for more it takes a list and returns a list, in
    the order of ``classes_``. What is no score, such as a probability outside [0, 1], is a ValueError.

    Parameters
    ----------
    calibrator : fitted calibrator

    Returns
    -------
    str

    Examples
    --------
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_python
    >>> cal = SplineCalibrator().fit([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> code = {}
    >>> exec(to_python(cal), code)
    >>> abs(code["calibrate"](0.8) - cal.calibrate([0.8])[0]) < 1e-12
    np.True_
    """
    what = plan(calibrator)
    tables = Tables(several=isinstance(what, OneVsRest))
    syntax = Syntax(
        number=repr,
        functions={
            "max": "max", "min": "min", "abs": "abs",
            "log": "math.log", "exp": "math.exp", "asinh": "math.asinh",
        },
        choice="{inside} if {low} <= {value} <= {high} else {outside}",
        cubic=lambda z, pieces: f"cubic({z}, {tables.name(pieces)})",
    )  # fmt: skip
    functions = _functions(what, syntax)
    blocks = tables.write("{name} = [  # start, and cubic from there\n{rows}\n]", "[]")
    text = "\n".join([*blocks, *functions])
    imports = ["import math"] if "math." in text or "softmax(" in text else []
    if blocks:
        imports += ["from bisect import bisect_right", "from operator import itemgetter"]
    helpers = [CUBIC] if blocks else []
    helpers += [LOG_SOFTMAX] if "log_softmax(" in text else []
    helpers += [SOFTMAX.format(least=-SAFE_EXPONENT)] if " softmax(" in text else []
    head = "\n".join(["# " + title(what.classes), *imports])
    return joined([head, *blocks, *helpers, *functions], "\n\n\n")


def _functions(what: Plan, syntax: Syntax) -> list[str]:
    if isinstance(what, Binary):
        return [_function("calibrate", what.program(), syntax, _check_one(what))]
    if isinstance(what, OneVsRest):
        parts = [_function(f"class_{j}", one, syntax, []) for j, one in enumerate(what.programs())]
        return [*parts, _one_vs_rest(what)]
    return [_structured(what, syntax) if isinstance(what, Structured) else _temperature(what)]


def _function(name: str, program: Program, syntax: Syntax, first: list[str]) -> str:
    arguments = ", ".join(program.arguments if not first else ["p"])
    body = statements(program, syntax, "{name} = {value}", "return {}")
    return "\n".join([f"def {name}({arguments}):", *first, body])


def _check_one(what: Binary) -> list[str]:
    low, high = domain(what.kind)
    wanted = "a probability in [0, 1]" if what.kind == "probability" else "a finite number"
    return [
        f"    if not {low!r} <= p <= {high!r}:",
        f'        raise ValueError(f"p must be {wanted}; got {{p!r}}")',
    ]


def _check_many(what: Many) -> list[str]:
    low, high = domain(what.kind)
    m = len(what.classes)
    wanted = f"{m} probabilities that sum to one" if what.kind == "probability" else f"{m} finite numbers"
    test = f"len(p) != {m} or not all({low!r} <= v <= {high!r} for v in p)"
    if what.kind == "probability":
        test += f" or abs(sum(p) - 1.0) > {ROW_SUM_TOLERANCE!r}"
    return [f"    if {test}:", f'        raise ValueError(f"p must be {wanted}; got {{p!r}}")']


def _one_vs_rest(what: OneVsRest) -> str:
    lines = ["def calibrate(p):", *_check_many(what)]
    if what.kind == "margin" and what.logits != "themselves":
        lines.append(f"    p = {what.logits}(p)")
    if any("rest" in one.arguments for one in what.programs()):
        lines += [
            "    top = max(range(len(p)), key=p.__getitem__)",
            "    others = sum(v for j, v in enumerate(p) if j != top)",
            "    rest = [others if j == top else 1.0 - v for j, v in enumerate(p)]",
        ]
    calls = [
        f"class_{j}({', '.join(f'{argument}[{j}]' for argument in one.arguments)})"
        for j, one in enumerate(what.programs())
    ]
    lines += ["    q = [", *[f"        {call}," for call in calls], "    ]"]
    return "\n".join([*lines, "    total = sum(q)", "    return [v / total for v in q]"])


def _structured(what: Structured, syntax: Syntax) -> str:
    scale, m = what.map.scale, len(what.classes)
    W, b = what.map.W, what.map.b
    constants = [f"INTERCEPTS = {bracketed(b.tolist(), '[]')}"]
    terms = ""
    if W is not None and W.ndim == 2:
        constants.append(f"MATRIX = {matrix(W.tolist(), '[]')}")
        terms = " + sum(w * v for w, v in zip(MATRIX[j], u))"
    elif W is not None:
        constants.append(f"DIAGONAL = {bracketed(W.tolist(), '[]')}")
        terms = " + DIAGONAL[j] * u[j]"
    if what.kind == "probability":
        logs = f"[math.log(max(v, {math.exp(scale.floor)!r})) for v in p]"
    else:
        logs = f"[max(v, {scale.floor!r}) for v in log_softmax(p)]"
    curve = syntax.cubic("u[j]", what.pieces)
    return "\n".join(
        [
            *constants,
            "\n",
            "def calibrate(p):",
            *_check_many(what),
            f"    logs = {logs}",
            f"    q = softmax([{scale.beta!r} * v for v in logs])",
            f"    u = [math.log({1.0 - scale.uniform!r} * v + {scale.uniform / m!r}) for v in q]",
            f"    y = [{curve} + INTERCEPTS[j]{terms} for j in range({m})]",
            "    return softmax(y)",
        ]
    )


def _temperature(what: Temperature) -> str:
    lines = ["def calibrate(p):", *_check_many(what)]
    if what.rates is not None:
        return "\n".join([*lines, f"    return {bracketed(what.rates, '[]', '    ')}"])
    logs = f"[math.log(max(v, {what.floor!r})) for v in p]" if what.kind == "probability" else "p"
    return "\n".join(
        [
            *lines,
            f"    z = {logs}",
            "    top = max(z)",
            f"    return softmax([max(v - top, {-what.reach!r}) / {what.temperature!r} for v in z])",
        ]
    )
