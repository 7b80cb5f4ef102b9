"""Calibrators as C source."""

from __future__ import annotations

from typing import Any

from calspline.export.code import Language, write
from calspline.export.plan import domain
from calspline.expression import Formula
from calspline.multiclass.structured_map import SAFE_EXPONENT
from calspline.scores import ROW_SUM_TOLERANCE

HELPERS = {
    "cubic": """\
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
}""",
    "log_softmax": """\
/* Logarithms of probabilities in the proportions of exp(y). */
static void log_softmax(const double *y, double *out)
{
    double top = y[0], total = 0.0;
    for (int j = 1; j < CLASSES; j++)
        top = fmax(top, y[j]);
    for (int j = 0; j < CLASSES; j++)
        total += exp(y[j] - top);
    for (int j = 0; j < CLASSES; j++)
        out[j] = y[j] - top - log(total);
}""",
    "softmax": f"""\
/* Positive numbers that sum to one, in the proportions of exp(y). */
static void softmax(const double *y, double *out)
{{
    double top = y[0], total = 0.0;
    for (int j = 1; j < CLASSES; j++)
        top = fmax(top, y[j]);
    for (int j = 0; j < CLASSES; j++)
        total += out[j] = exp(fmax(y[j] - top, {-SAFE_EXPONENT!r}));
    for (int j = 0; j < CLASSES; j++)
        out[j] /= total;
}}""",
    "centred": """\
/* Differences from the largest. */
static void centred(const double *y, double *out)
{
    double top = y[0];
    for (int j = 1; j < CLASSES; j++)
        top = fmax(top, y[j]);
    for (int j = 0; j < CLASSES; j++)
        out[j] = y[j] - top;
}""",
    "normalise": """\
/* Numbers that sum to one, in the same proportions. */
static void normalise(const double *q, double *out)
{
    double total = 0.0;
    for (int j = 0; j < CLASSES; j++)
        total += q[j];
    for (int j = 0; j < CLASSES; j++)
        out[j] = q[j] / total;
}""",
    "rest": """\
/* Probabilities of all others; 1 - p would round away what is left to the others by the largest. */
static void complement(const double *p, double *out)
{
    int top = 0;
    double others = 0.0;
    for (int j = 1; j < CLASSES; j++)
        if (p[j] > p[top])
            top = j;
    for (int j = 0; j < CLASSES; j++)
        if (j != top)
            others += p[j];
    for (int j = 0; j < CLASSES; j++)
        out[j] = j == top ? others : 1.0 - p[j];
}""",
    "matrix": """\
/* A matrix times a vector. */
static void product(const double (*matrix)[CLASSES], const double *u, double *out)
{
    for (int j = 0; j < CLASSES; j++) {
        out[j] = 0.0;
        for (int k = 0; k < CLASSES; k++)
            out[j] += matrix[j][k] * u[k];
    }
}""",
}


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
    return write(calibrator, C)


def _head(title: str, formula: Formula, source: str) -> str:
    m = len(formula.classes)
    return f"/* {title} */\n#include <math.h>" + (f"\n\n#define CLASSES {m}" if m > 2 else "")


def _check(formula: Formula) -> list[str]:
    low, high = domain(formula.kind)
    if len(formula.classes) == 2:
        return [f"if (!(p >= {low!r} && p <= {high!r}))", "    return NAN;"]
    sums = formula.kind == "probability"
    return [
        *(["double sum = 0.0;"] if sums else []),
        "int valid = 1;",
        "for (int j = 0; j < CLASSES; j++) {",
        f"    valid = valid && p[j] >= {low!r} && p[j] <= {high!r};",
        *(["    sum += p[j];"] if sums else []),
        "}",
        f"if (!valid || fabs(sum - 1.0) > {ROW_SUM_TOLERANCE!r}) {{" if sums else "if (!valid) {",
        "    for (int j = 0; j < CLASSES; j++)",
        "        out[j] = NAN;",
        "    return;",
        "}",
    ]


C = Language(
    functions={
        "max": "fmax", "min": "fmin", "abs": "fabs", "log": "log", "exp": "exp", "asinh": "asinh",
        "rest": "complement", "matrix": "product",
    },
    choice="{low} <= {value} && {value} <= {high} ? {inside} : {outside}",
    helpers=HELPERS,
    check=_check,
    head=_head,
    one="double calibrate(double p)",
    many="void calibrate(const double *p, double *out)",
    part="static double class_{j}({arguments})",
    argument="double {}",
    no_argument="void",
    body="{begin}\n{{\n{lines}\n}}",
    step="double {name} = {value};",
    row="double {name}[CLASSES];\nfor (int j = 0; j < CLASSES; j++)\n    {name}[j] = {value};",
    row_of="double {name}[CLASSES] = {{\n{items}\n}};",
    row_call="double {name}[CLASSES];\n{function}({arguments}, {name});",
    result="return {value};",
    row_result="{function}({arguments}, out);",
    table="/* Start of each piece, and the cubic from there. */\nstatic const double {name}[][5] = {{\n{rows}\n}};",
    constant="static const double {name}{size} = {value};",
    cubic="cubic({z}, {table}, {n})",
    brackets="{}",
)  # fmt: skip
