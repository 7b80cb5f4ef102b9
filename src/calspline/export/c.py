"""Calibrators as C source."""

from __future__ import annotations

import math
from typing import Any

from calspline.export._code import Tables, bracketed, joined, matrix, statements, title
from calspline.export._plan import Binary, Many, OneVsRest, Plan, Program, Structured, Temperature, domain, plan
from calspline.expression import Syntax
from calspline.multiclass.structured_map import SAFE_EXPONENT
from calspline.scores import ROW_SUM_TOLERANCE

CUBIC = """\
/* Value at z of a curve in n pieces: each has its start and four coefficients, highest power first. */
static double cubic(double z, const double (*pieces)[5], int n)
{
    int low = 0, high = n;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (z < pieces[middle][0])
            high = middle;
        else
            low = middle;
    }
    const double *piece = pieces[low];
    double t = z - piece[0];
    return ((piece[1] * t + piece[2]) * t + piece[3]) * t + piece[4];
}"""

SOFTMAX = """\
/* Positive numbers that sum to one, in the proportions of exp(y), in place. */
static void softmax(double *y)
{
    double top = y[0], total = 0.0;
    for (int j = 1; j < CLASSES; j++)
        top = fmax(top, y[j]);
    for (int j = 0; j < CLASSES; j++)
        total += y[j] = exp(fmax(y[j] - top, LEAST));
    for (int j = 0; j < CLASSES; j++)
        y[j] /= total;
}"""

LOG_SOFTMAX = """\
/* Logarithms of probabilities in the proportions of exp(y), in place. */
static void log_softmax(double *y)
{
    double top = y[0], total = 0.0;
    for (int j = 1; j < CLASSES; j++)
        top = fmax(top, y[j]);
    for (int j = 0; j < CLASSES; j++)
        total += exp(y[j] - top);
    for (int j = 0; j < CLASSES; j++)
        y[j] = y[j] - top - log(total);
}"""

RESTS = """\
    int top = 0;
    double others = 0.0, rest[CLASSES];
    for (int j = 1; j < CLASSES; j++)
        if (x[j] > x[top])
            top = j;
    for (int j = 0; j < CLASSES; j++)
        if (j != top)
            others += x[j];
    for (int j = 0; j < CLASSES; j++)
        rest[j] = j == top ? others : 1.0 - x[j];"""

NORMALISE = """\
    double total = 0.0;
    for (int j = 0; j < CLASSES; j++)
        total += out[j];
    for (int j = 0; j < CLASSES; j++)
        out[j] /= total;"""


def to_c(calibrator: Any) -> str:
    """A fitted calibrator as C source (C99) that needs only the mathematical library.

    The source defines ``double calibrate(double p)`` for two classes, where ``p`` is the probability of
    ``classes_[1]`` or a margin; and for more ``void calibrate(const double *p, double *out)``, in the order
    of ``classes_``. What is no score, such as a probability outside [0, 1], gives NaN.

    Parameters
    ----------
    calibrator : fitted calibrator

    Returns
    -------
    str
        Link with ``-lm``.

    Examples
    --------
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_c
    >>> cal = SplineCalibrator().fit([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> print(to_c(cal))  # doctest: +ELLIPSIS
    /* Probability of class 1, calibrated. Written by calspline ... */
    #include <math.h>
    ...
    double calibrate(double p)
    {
        if (!(p >= 0.0 && p <= 1.0))
            return NAN;
    ...
    """
    what = plan(calibrator)
    tables = Tables(several=isinstance(what, OneVsRest))

    def cubic(z: str, pieces: Any) -> str:
        return f"cubic({z}, {tables.name(pieces)}, {len(pieces.coefficients)})"

    syntax = Syntax(
        number=repr,
        functions={"max": "fmax", "min": "fmin", "abs": "fabs", "log": "log", "exp": "exp", "asinh": "asinh"},
        choice="{low} <= {value} && {value} <= {high} ? {inside} : {outside}",
        cubic=cubic,
    )
    functions = _functions(what, syntax)
    head = [f"/* {title(what.classes)} */", "#include <math.h>"]
    if not isinstance(what, Binary):
        head.append(f"\n#define CLASSES {len(what.classes)}")
    blocks = tables.write(
        "/* Start of each piece, and the cubic from there. */\nstatic const double {name}[][5] = {{\n{rows}\n}};", "{}"
    )
    text = "\n".join(functions)
    helpers = [CUBIC] if blocks else []
    helpers += [LOG_SOFTMAX] if "log_softmax(" in text else []
    helpers += [SOFTMAX.replace("LEAST", repr(-SAFE_EXPONENT))] if " softmax(" in text else []
    return joined(["\n".join(head), *blocks, *helpers, *functions])


def _functions(what: Plan, syntax: Syntax) -> list[str]:
    if isinstance(what, Binary):
        low, high = domain(what.kind)
        check = [f"    if (!(p >= {low!r} && p <= {high!r}))", "        return NAN;"]
        return [_function("double calibrate", what.program(), syntax, check)]
    if isinstance(what, OneVsRest):
        parts = [_function(f"static double class_{j}", one, syntax, []) for j, one in enumerate(what.programs())]
        return [*parts, _one_vs_rest(what)]
    return [_structured(what, syntax) if isinstance(what, Structured) else _temperature(what)]


def _function(name: str, program: Program, syntax: Syntax, first: list[str]) -> str:
    names = ["p"] if first else program.arguments
    arguments = ", ".join(f"double {argument}" for argument in names) or "void"
    body = statements(program, syntax, "double {name} = {value};", "return {};")
    return "\n".join([f"{name}({arguments})", "{", *first, body, "}"])


def _start(what: Many) -> list[str]:
    """The head of the function, and scores checked and copied to ``x``: ``out`` may be ``p``."""
    low, high = domain(what.kind)
    sums = what.kind == "probability"
    return [
        "void calibrate(const double *p, double *out)",
        "{",
        "    double x[CLASSES], sum = 0.0;" if sums else "    double x[CLASSES];",
        "    int valid = 1;",
        "    for (int j = 0; j < CLASSES; j++) {",
        f"        valid = valid && p[j] >= {low!r} && p[j] <= {high!r};",
        "        sum += x[j] = p[j];" if sums else "        x[j] = p[j];",
        "    }",
        f"    if (!valid || fabs(sum - 1.0) > {ROW_SUM_TOLERANCE!r}) {{" if sums else "    if (!valid) {",
        "        for (int j = 0; j < CLASSES; j++)",
        "            out[j] = NAN;",
        "        return;",
        "    }",
    ]


def _one_vs_rest(what: OneVsRest) -> str:
    lines = _start(what)
    if what.kind == "margin" and what.logits != "themselves":
        lines.append(f"    {what.logits}(x);")
    if any("rest" in one.arguments for one in what.programs()):
        lines.append(RESTS)
    for j, one in enumerate(what.programs()):
        arguments = ", ".join(f"{array}[{j}]" for array, _ in zip(("x", "rest"), one.arguments, strict=False))
        lines.append(f"    out[{j}] = class_{j}({arguments});")
    return "\n".join([*lines, NORMALISE, "}"])


def _structured(what: Structured, syntax: Syntax) -> str:
    scale, m = what.map.scale, len(what.classes)
    W, b = what.map.W, what.map.b
    constants = [f"static const double INTERCEPTS[CLASSES] = {bracketed(b.tolist(), '{}')};"]
    terms: list[str] = []
    if W is not None and W.ndim == 2:
        constants.append(f"static const double MATRIX[CLASSES][CLASSES] = {matrix(W.tolist(), '{}')};")
        terms = ["        for (int k = 0; k < CLASSES; k++)", "            out[j] += MATRIX[j][k] * x[k];"]
    elif W is not None:
        constants.append(f"static const double DIAGONAL[CLASSES] = {bracketed(W.tolist(), '{}')};")
        terms = ["        out[j] += DIAGONAL[j] * x[j];"]
    floor = (
        f"log(fmax(x[j], {math.exp(scale.floor)!r}))" if what.kind == "probability" else f"fmax(x[j], {scale.floor!r})"
    )
    return "\n".join(
        [
            *constants,
            "",
            *_start(what),
            *(["    log_softmax(x);"] if what.kind == "margin" else []),
            "    for (int j = 0; j < CLASSES; j++)",
            f"        x[j] = {scale.beta!r} * {floor};",
            "    softmax(x);",
            "    for (int j = 0; j < CLASSES; j++)",
            f"        x[j] = log({1.0 - scale.uniform!r} * x[j] + {scale.uniform / m!r});",
            "    for (int j = 0; j < CLASSES; j++) {",
            f"        out[j] = {syntax.cubic('x[j]', what.pieces)} + INTERCEPTS[j];",
            *terms,
            "    }",
            "    softmax(out);",
            "}",
        ]
    )


def _temperature(what: Temperature) -> str:
    if what.rates is not None:
        return "\n".join(
            [
                f"static const double RATES[CLASSES] = {bracketed(what.rates, '{}')};",
                "",
                *_start(what),
                "    for (int j = 0; j < CLASSES; j++)",
                "        out[j] = RATES[j];",
                "}",
            ]
        )
    logs = ["    for (int j = 0; j < CLASSES; j++)", f"        x[j] = log(fmax(x[j], {what.floor!r}));"]
    return "\n".join(
        [
            *_start(what),
            *(logs if what.kind == "probability" else []),
            "    double top = x[0];",
            "    for (int j = 1; j < CLASSES; j++)",
            "        top = fmax(top, x[j]);",
            "    for (int j = 0; j < CLASSES; j++)",
            f"        out[j] = fmax(x[j] - top, {-what.reach!r}) / {what.temperature!r};",
            "    softmax(out);",
            "}",
        ]
    )
