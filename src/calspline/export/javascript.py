"""Calibrators as JavaScript source."""

from __future__ import annotations

from typing import Any

from calspline.export.code import Language, write
from calspline.export.plan import domain
from calspline.expression import Formula
from calspline.multiclass.structured_map import SAFE_EXPONENT
from calspline.scores import ROW_SUM_TOLERANCE

HELPERS = {
    "cubic": """\
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
}""",
    "log_softmax": """\
// Logarithms of probabilities in the proportions of exp(y).
function logSoftmax(y) {
    const top = Math.max(...y);
    const total = Math.log(y.reduce((sum, v) => sum + Math.exp(v - top), 0));
    return y.map((v) => v - top - total);
}""",
    "softmax": f"""\
// Positive numbers that sum to one, in the proportions of exp(y).
function softmax(y) {{
    const top = Math.max(...y);
    const e = y.map((v) => Math.exp(Math.max(v - top, {-SAFE_EXPONENT!r})));
    const total = e.reduce((sum, v) => sum + v, 0);
    return e.map((v) => v / total);
}}""",
    "centred": """\
// Differences from the largest.
function centred(y) {
    const top = Math.max(...y);
    return y.map((v) => v - top);
}""",
    "normalise": """\
// Numbers that sum to one, in the same proportions.
function normalise(q) {
    const total = q.reduce((sum, v) => sum + v, 0);
    return q.map((v) => v / total);
}""",
    "rest": """\
// Probabilities of all others; 1 - p would round away what is left to the others by the largest.
function complement(p) {
    const top = p.indexOf(Math.max(...p));
    const others = p.reduce((sum, v, j) => (j === top ? sum : sum + v), 0);
    return p.map((v, j) => (j === top ? others : 1 - v));
}""",
    "matrix": """\
// A matrix times a vector.
function product(matrix, u) {
    return matrix.map((row) => row.reduce((sum, w, k) => sum + w * u[k], 0));
}""",
}


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
    return write(calibrator, JAVASCRIPT)


def _check(formula: Formula) -> list[str]:
    low, high = domain(formula.kind)
    m = len(formula.classes)
    if m == 2:
        return [f'if (typeof p !== "number" || !(p >= {low!r} && p <= {high!r})) return NaN;']
    valid = [f"p.length === {m}", f'p.every((v) => typeof v === "number" && v >= {low!r} && v <= {high!r})']
    if formula.kind == "probability":
        valid.append(f"Math.abs(p.reduce((sum, v) => sum + v, 0) - 1) <= {ROW_SUM_TOLERANCE!r}")
    test = "\n        && ".join(valid)
    return [f"const valid = {test};", f"if (!valid) return new Array({m}).fill(NaN);"]


JAVASCRIPT = Language(
    functions={name: f"Math.{name}" for name in ("max", "min", "abs", "log", "exp", "asinh")}
    | {"log_softmax": "logSoftmax", "rest": "complement", "matrix": "product"},
    choice="{low} <= {value} && {value} <= {high} ? {inside} : {outside}",
    helpers=HELPERS,
    check=_check,
    head=lambda title, formula, source: f"// {title}",
    one="calibrate(p)",
    many="calibrate(p)",
    part="class{j}({arguments})",
    body="function {begin} {{\n{lines}\n}}",
    step="const {name} = {value};",
    row="const {name} = p.map((_, j) => {value});",
    row_of="const {name} = [\n{items}\n];",
    row_call="const {name} = {function}({arguments});",
    result="return {value};",
    row_result="return {function}({arguments});",
    table="// Start of each piece, and the cubic from there.\nconst {name} = [\n{rows}\n];",
    constant="const {name} = {value};",
)
