"""Calibrators as JavaScript source."""

from __future__ import annotations

import math
from typing import Any

from calspline.export._code import Tables, bracketed, joined, matrix, statements, title
from calspline.export._plan import Binary, Many, OneVsRest, Plan, Program, Structured, Temperature, domain, plan
from calspline.expression import Syntax
from calspline.multiclass.structured_map import SAFE_EXPONENT
from calspline.scores import ROW_SUM_TOLERANCE

CUBIC = """\
// Value at z of a curve in pieces: each has its start and four coefficients, highest power first.
function cubic(z, pieces) {
    let low = 0;
    let high = pieces.length;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (z < pieces[middle][0]) high = middle;
        else low = middle;
    }
    const [start, a, b, c, d] = pieces[low];
    const t = z - start;
    return ((a * t + b) * t + c) * t + d;
}"""

SOFTMAX = """\
// Positive numbers that sum to one, in the proportions of exp(y).
function softmax(y) {
    const top = Math.max(...y);
    const e = y.map((v) => Math.exp(Math.max(v - top, LEAST)));
    const total = e.reduce((sum, v) => sum + v, 0);
    return e.map((v) => v / total);
}"""

LOG_SOFTMAX = """\
// Logarithms of probabilities in the proportions of exp(y).
function logSoftmax(y) {
    const top = Math.max(...y);
    const total = Math.log(y.reduce((sum, v) => sum + Math.exp(v - top), 0));
    return y.map((v) => v - top - total);
}"""

LOGITS = {"log_softmax": "logSoftmax", "softmax": "softmax"}


def to_javascript(calibrator: Any) -> str:
    """A fitted calibrator as JavaScript source without dependencies.

    The source defines ``calibrate``. For two classes it takes one score, the probability of ``classes_[1]`` or a
    margin, and returns the calibrated probability; for more it takes an array and returns an array, in
    the order of ``classes_``. What is no score, such as a probability outside [0, 1], gives NaN.

    Parameters
    ----------
    calibrator : fitted calibrator

    Returns
    -------
    str
        A script. To import it as a module, append ``export { calibrate };``.

    Examples
    --------
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_javascript
    >>> cal = SplineCalibrator().fit([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> print(to_javascript(cal))  # doctest: +ELLIPSIS
    // Probability of class 1, calibrated. Written by calspline ...
    function calibrate(p) {
        if (typeof p !== "number" || !(p >= 0.0 && p <= 1.0)) return NaN;
        const u = Math.log(Math.max(p, 1e-300)) - Math.log(Math.max(1.0 - p, 1e-16));
    ...
    """
    what = plan(calibrator)
    tables = Tables(several=isinstance(what, OneVsRest))
    syntax = Syntax(
        number=repr,
        functions={name: f"Math.{name}" for name in ("max", "min", "abs", "log", "exp", "asinh")},
        choice="{low} <= {value} && {value} <= {high} ? {inside} : {outside}",
        cubic=lambda z, pieces: f"cubic({z}, {tables.name(pieces)})",
    )
    functions = _functions(what, syntax)
    blocks = tables.write("// Start of each piece, and the cubic from there.\nconst {name} = [\n{rows}\n];", "[]")
    text = "\n".join(functions)
    helpers = [CUBIC] if blocks else []
    helpers += [LOG_SOFTMAX] if "logSoftmax(" in text else []
    helpers += [SOFTMAX.replace("LEAST", repr(-SAFE_EXPONENT))] if " softmax(" in text else []
    return joined(["// " + title(what.classes), *blocks, *helpers, *functions])


def _functions(what: Plan, syntax: Syntax) -> list[str]:
    if isinstance(what, Binary):
        low, high = domain(what.kind)
        check = f'    if (typeof p !== "number" || !(p >= {low!r} && p <= {high!r})) return NaN;'
        return [_function("calibrate", what.program(), syntax, [check])]
    if isinstance(what, OneVsRest):
        parts = [_function(f"class{j}", one, syntax, []) for j, one in enumerate(what.programs())]
        return [*parts, _one_vs_rest(what)]
    return [_structured(what, syntax) if isinstance(what, Structured) else _temperature(what)]


def _function(name: str, program: Program, syntax: Syntax, first: list[str]) -> str:
    arguments = ", ".join(program.arguments if not first else ["p"])
    body = statements(program, syntax, "const {name} = {value};", "return {};")
    return "\n".join([f"function {name}({arguments}) {{", *first, body, "}"])


def _check(what: Many) -> list[str]:
    low, high = domain(what.kind)
    m = len(what.classes)
    valid = [f"p.length === {m}", f'p.every((v) => typeof v === "number" && v >= {low!r} && v <= {high!r})']
    if what.kind == "probability":
        valid.append(f"Math.abs(p.reduce((sum, v) => sum + v, 0) - 1) <= {ROW_SUM_TOLERANCE!r}")
    return [f"    const valid = {valid[0]}", *[f"        && {part}" for part in valid[1:-1]],
            f"        && {valid[-1]};", f"    if (!valid) return new Array({m}).fill(NaN);"]  # fmt: skip


def _one_vs_rest(what: OneVsRest) -> str:
    lines = ["function calibrate(p) {", *_check(what)]
    if what.kind == "margin" and what.logits != "themselves":
        lines.append(f"    p = {LOGITS[what.logits]}(p);")
    if any("rest" in one.arguments for one in what.programs()):
        lines += [
            "    const top = p.indexOf(Math.max(...p));",
            "    const others = p.reduce((sum, v, j) => (j === top ? sum : sum + v), 0);",
            "    const rest = p.map((v, j) => (j === top ? others : 1 - v));",
        ]
    calls = [
        f"class{j}({', '.join(f'{argument}[{j}]' for argument in one.arguments)})"
        for j, one in enumerate(what.programs())
    ]
    return "\n".join(
        [
            *lines,
            "    const q = [",
            *[f"        {call}," for call in calls],
            "    ];",
            "    const total = q.reduce((sum, v) => sum + v, 0);",
            "    return q.map((v) => v / total);",
            "}",
        ]
    )


def _structured(what: Structured, syntax: Syntax) -> str:
    scale, m = what.map.scale, len(what.classes)
    W, b = what.map.W, what.map.b
    constants = [f"const INTERCEPTS = {bracketed(b.tolist(), '[]')};"]
    terms = ""
    if W is not None and W.ndim == 2:
        constants.append(f"const MATRIX = {matrix(W.tolist(), '[]')};")
        terms = " + u.reduce((sum, w, k) => sum + MATRIX[j][k] * w, 0)"
    elif W is not None:
        constants.append(f"const DIAGONAL = {bracketed(W.tolist(), '[]')};")
        terms = " + DIAGONAL[j] * v"
    if what.kind == "probability":
        logs = f"p.map((v) => Math.log(Math.max(v, {math.exp(scale.floor)!r})))"
    else:
        logs = f"logSoftmax(p).map((v) => Math.max(v, {scale.floor!r}))"
    curve = syntax.cubic("v", what.pieces)
    return "\n".join(
        [
            *constants,
            "",
            "function calibrate(p) {",
            *_check(what),
            f"    const logs = {logs};",
            f"    const q = softmax(logs.map((v) => {scale.beta!r} * v));",
            f"    const u = q.map((v) => Math.log({1.0 - scale.uniform!r} * v + {scale.uniform / m!r}));",
            f"    return softmax(u.map((v, j) => {curve} + INTERCEPTS[j]{terms}));",
            "}",
        ]
    )


def _temperature(what: Temperature) -> str:
    lines = ["function calibrate(p) {", *_check(what)]
    if what.rates is not None:
        return "\n".join([*lines, f"    return {bracketed(what.rates, '[]', '    ')};", "}"])
    logs = f"p.map((v) => Math.log(Math.max(v, {what.floor!r})))" if what.kind == "probability" else "p"
    return "\n".join(
        [
            *lines,
            f"    const z = {logs};",
            "    const top = Math.max(...z);",
            f"    return softmax(z.map((v) => Math.max(v - top, {-what.reach!r}) / {what.temperature!r}));",
            "}",
        ]
    )
