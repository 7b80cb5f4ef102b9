"""Calibrators as Python source."""

from __future__ import annotations

from typing import Any

from calspline.export.code import Language, write
from calspline.export.plan import domain
from calspline.expression import Formula
from calspline.multiclass.structured_map import SAFE_EXPONENT
from calspline.scores import ROW_SUM_TOLERANCE

HELPERS = {
    "cubic": '''\
def cubic(z, pieces):
    """Value at z of a curve in pieces: each has its start and four coefficients, highest power first."""
    start, a, b, c, d = pieces[bisect_right(pieces, z, 1, key=itemgetter(0)) - 1]
    t = z - start
    return ((a * t + b) * t + c) * t + d''',
    "log_softmax": '''\
def log_softmax(y):
    """Logarithms of probabilities in the proportions of exp(y)."""
    top = max(y)
    total = math.log(sum(math.exp(v - top) for v in y))
    return [v - top - total for v in y]''',
    "softmax": f'''\
def softmax(y):
    """Positive numbers that sum to one, in the proportions of exp(y)."""
    top = max(y)
    e = [math.exp(max(v - top, {-SAFE_EXPONENT!r})) for v in y]
    total = sum(e)
    return [v / total for v in e]''',
    "centred": '''\
def centred(y):
    """Differences from the largest."""
    top = max(y)
    return [v - top for v in y]''',
    "normalise": '''\
def normalise(q):
    """Numbers that sum to one, in the same proportions."""
    total = sum(q)
    return [v / total for v in q]''',
    "rest": '''\
def complement(p):
    """Probabilities of all others; 1 - p would round away what is left to the others by the largest."""
    top = max(range(len(p)), key=p.__getitem__)
    others = sum(v for j, v in enumerate(p) if j != top)
    return [others if j == top else 1.0 - v for j, v in enumerate(p)]''',
    "matrix": '''\
def product(matrix, u):
    """A matrix times a vector."""
    return [sum(w * v for w, v in zip(row, u)) for row in matrix]''',
}
IMPORTS = {
    "math.": "import math",
    "bisect_right": "from bisect import bisect_right",
    "itemgetter": "from operator import itemgetter",
}


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
    return write(calibrator, PYTHON)


def _head(title: str, formula: Formula, source: str) -> str:
    return "\n".join([f"# {title}", *[line for used, line in IMPORTS.items() if used in source]])


def _check(formula: Formula) -> list[str]:
    low, high = domain(formula.kind)
    m, probabilities = len(formula.classes), formula.kind == "probability"
    if m == 2:
        wanted = "a probability in [0, 1]" if probabilities else "a finite number"
        test = f"not {low!r} <= p <= {high!r}"
    else:
        wanted = f"{m} probabilities that sum to one" if probabilities else f"{m} finite numbers"
        test = f"len(p) != {m} or not all({low!r} <= v <= {high!r} for v in p)"
        test += f" or abs(sum(p) - 1.0) > {ROW_SUM_TOLERANCE!r}" if probabilities else ""
    return [f"if {test}:", f'    raise ValueError(f"p must be {wanted}; got {{p!r}}")']


PYTHON = Language(
    functions={
        "max": "max", "min": "min", "abs": "abs", "log": "math.log", "exp": "math.exp", "asinh": "math.asinh",
        "rest": "complement", "matrix": "product",
    },
    choice="{inside} if {low} <= {value} <= {high} else {outside}",
    helpers=HELPERS,
    check=_check,
    head=_head,
    one="calibrate(p)",
    many="calibrate(p)",
    part="class_{j}({arguments})",
    body="def {begin}:\n{lines}",
    step="{name} = {value}",
    row="{name} = [{value} for j in range({m})]",
    row_of="{name} = [\n{items}\n]",
    row_call="{name} = {function}({arguments})",
    result="return {value}",
    row_result="return {function}({arguments})",
    table="{name} = [  # start, and cubic from there\n{rows}\n]",
    constant="{name} = {value}",
    gap="\n\n\n",
)  # fmt: skip
