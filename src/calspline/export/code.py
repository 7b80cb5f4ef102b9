"""Calibrators as source code: a formula written out step by step, which the template of a language prints."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from calspline import __version__
from calspline.export import Syntax, formula_of
from calspline.expression import LEAST_SHARE, Constant, Expression, Formula, Lookup, Pieces, Program, name
from calspline.multiclass.structured_map import SAFE_EXPONENT
from calspline.scores import ROW_SUM_TOLERANCE, SCORE_LIMITS

WIDTH = 100
LARGEST_INTEGER, LARGEST_LONG = 2**53, 2**63
"""In JavaScript, whose integers are exact up to there, and in C."""
UNSAFE = re.compile(r"[^\w .,+'\"\\-]", re.ASCII)


@dataclass(frozen=True)
class Language:
    """What formulas are made of in a language. The rest of a program is in its ``template``.

    ``functions`` has its names of functions and of operations on rows, where they differ, and ``choice`` its
    conditional, as in :class:`~calspline.export.Syntax`; ``cubic`` is a curve at ``{z}``, given the ``{table}`` of
    its ``{n}`` pieces; ``brackets`` are those of lists. ``label`` writes the label of a segment,
    and ``mixes`` says whether one argument may be a text or a number.
    """

    template: str
    functions: Mapping[str, str]
    label: Callable[[Any], str]
    mixes: bool = True
    choice: str = "{low} <= {value} && {value} <= {high} ? {inside} : {outside}"
    cubic: str = "cubic({z}, {table})"
    brackets: tuple[str, str] = ("[", "]")


def _javascript_label(label: Any) -> str:
    if isinstance(label, str):
        return json.dumps(label).replace("<", "\\u003c")  # no label ends a script
    if isinstance(label, int) and abs(label) > LARGEST_INTEGER:
        raise ValueError(f"segments must be integers that JavaScript has; {label} is too large")
    return repr(label if isinstance(label, float) else int(label))


def _c_label(label: Any) -> str:
    if not isinstance(label, str):
        if abs(label) >= LARGEST_LONG and isinstance(label, int):
            raise ValueError(f"segments must be integers that C has; {label} is too large")
        return repr(label if isinstance(label, float) else int(label))
    if "\0" in label:
        raise ValueError(f"segments must be texts that C has, without a null character; got {label!r}")
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in label.encode())
    return '"' + "".join(plain) + '"'


ON_ROWS = {"rest": "complement", "matrix": "product"}
PYTHON = Language(
    "calibrate.py.jinja",
    functions={name: f"math.{name}" for name in ("log", "exp", "asinh", "sqrt")} | ON_ROWS,
    label=ascii,
    choice="{inside} if {low} <= {value} <= {high} else {outside}",
)
JAVASCRIPT = Language(
    "calibrate.js.jinja",
    functions={name: f"Math.{name}" for name in ("max", "min", "abs", "log", "exp", "asinh", "sqrt")}
    | {"log_softmax": "logSoftmax"}
    | ON_ROWS,
    label=_javascript_label,
)
C = Language(
    "calibrate.c.jinja",
    functions={name: f"f{name}" for name in ("max", "min", "abs")} | ON_ROWS,
    label=_c_label,
    mixes=False,
    cubic="cubic({z}, {table}, {n})",
    brackets=("{", "}"),
)


def to_python(calibrator: Any) -> str:
    """A fitted calibrator as Python source that needs only the standard library.

    The source defines ``calibrate``. For two classes it takes one score, the probability of ``classes_[1]`` or a
    margin, and returns the calibrated probability; for more it takes a list and returns a list, in
    the order of ``classes_``. What is no score, such as a probability outside [0, 1] by more than rounding, is a
    ValueError.

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


def to_javascript(calibrator: Any) -> str:
    """A fitted calibrator as JavaScript source without dependencies.

    The source defines ``calibrate``. For two classes it takes one score, the probability of ``classes_[1]`` or a
    margin, and returns the calibrated probability; for more it takes an array and returns an array, in
    the order of ``classes_``. What is no score, such as a probability outside [0, 1] by more than rounding, gives
    NaN.

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
        if (typeof p !== "number" || !(p >= -1e-06 && p <= 1.000001)) return NaN;
        p = Math.min(Math.max(p, 0), 1);
        const u = Math.log(Math.max(p, 1e-300)) - Math.log(Math.max(1.0 - p, 1e-16));
    ...
    """
    return write(calibrator, JAVASCRIPT)


def to_c(calibrator: Any) -> str:
    """A fitted calibrator as C source (C99) that needs only the mathematical library.

    The source defines ``double calibrate(double p)`` for two classes, where ``p`` is the probability of
    ``classes_[1]`` or a margin; and for more ``void calibrate(const double *p, double *out)``, in the order
    of ``classes_``. What is no score, such as a probability outside [0, 1] by more than rounding, gives
    NaN.

    Parameters
    ----------
    calibrator : fitted calibrator

    Returns
    -------
    str
        Link with ``-lm``. With ``-ffast-math``, which takes NaN for a number, it refuses to compile.

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
        if (!(p >= -1e-06 && p <= 1.000001))
            return NAN;
    ...
    """
    return write(calibrator, C)


def write(calibrator: Any, language: Language) -> str:
    """A fitted calibrator as source code."""
    formula = formula_of(calibrator, segments=True)
    source = _Source(formula, language)
    main = source.function(formula.program) if len(formula.classes) == 2 else source.rows(formula.program)
    low, high = SCORE_LIMITS[formula.kind]
    text: str = _template(language.template).render(
        title=_title(formula.classes),
        m=len(formula.classes),
        probability=formula.kind == "probability",
        low=repr(low),
        high=repr(high),
        tolerance=repr(ROW_SUM_TOLERANCE),
        min_exponent=repr(-SAFE_EXPONENT),
        least_share=repr(LEAST_SHARE),
        steps=main.steps,
        result=main.result,
        **vars(source),
    )
    return text


@cache
def _template(file: str) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("calspline.export"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # code is no HTML, and the title has escapes of its own
    ).get_template(file)


def _title(classes: list[Any]) -> str:
    """One line of ASCII that says what comes out.

    No label in it ends a comment or a ``<script>``, and Python takes none for ``coding: ...``.
    """
    listed = [json.dumps(label if isinstance(label, (str, int, float)) else str(label)) for label in classes]
    labels = [UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", label) for label in listed]
    what = f"Probability of class {labels[1]}" if len(labels) == 2 else f"Probabilities of classes {', '.join(labels)}"
    return f"{what}, calibrated. Written by calspline {__version__}."


@dataclass(frozen=True)
class Block:
    """A table of the pieces of a curve, or a constant with its ``value`` in one dimension or two."""

    name: str
    pieces: list[str] = field(default_factory=list)
    value: str = ""
    dimensions: int = 1


@dataclass(frozen=True)
class EffectTable:
    """The effects of segments in a column: ``argument`` has the label of a segment, ``variable`` its effects."""

    name: str
    argument: str
    variable: str
    kind: str  # of labels: text, integer, number or mixed
    rows: list[tuple[str, str]]  # labels and their effects, sorted
    new: str  # effects of a label that is not among them
    width: int


@dataclass(frozen=True)
class Step:
    """A name for a ``value``, that of element ``j`` if it is a row.

    The whole row comes from a ``function`` of ``arguments`` or from ``calls`` of the functions of the classes.
    """

    name: str
    value: str = ""
    function: str = ""
    arguments: str = ""
    calls: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Function:
    """Named steps and a result, of some arguments."""

    arguments: list[str]
    steps: list[Step]
    result: Step


class _Source:
    """Writes programs, and collects what they use: tables and constants, helpers, and the functions of classes."""

    def __init__(self, formula: Formula, language: Language) -> None:
        self.formula, self.language = formula, language
        self.blocks: list[Block] = []
        self.used: set[str] = set()
        self.classes: list[Function] = []
        self.tables = [
            self._table(lookup, "" if len(formula.lookups) == 1 else f"_{c}")
            for c, lookup in enumerate(formula.lookups)
        ]

    def _table(self, lookup: Lookup, suffix: str) -> EffectTable:
        """The effects of the segments of a column."""
        effects = np.column_stack([*lookup.numbers.values(), np.empty((len(lookup.labels) + 1, 0))]).tolist()
        texts = [isinstance(label, str) for label in lookup.labels]
        order = sorted(range(len(texts)), key=lambda i: (texts[i], lookup.labels[i]))
        rows = [(self.language.label(lookup.labels[i]), self._bracketed(effects[i], "    ")) for i in order]
        whole = all(isinstance(label, int) for label in lookup.labels)
        kind = "text" if all(texts) else "mixed" if any(texts) else "integer" if whole else "number"
        if kind == "mixed" and not self.language.mixes:
            raise ValueError("segments must all be texts or all be numbers for this language; by has both")
        names = "EFFECTS" + suffix, "by" + suffix, "effects" + suffix
        return EffectTable(*names, kind, rows, self._bracketed(effects[-1]), len(effects[-1]))

    def _effects(self, j: int | None = None) -> dict[str, Expression]:
        """Where the tables have the numbers of names; of rows those of class ``j``, or of a class still to be named."""
        found = {}
        for table, lookup in zip(self.tables, self.formula.lookups, strict=True):
            place = 0
            for key, values in lookup.numbers.items():
                at = place if values.ndim == 1 else f"{place} + j" if j is None else place + j
                found[key] = name(f"{table.variable}[{at}]")
                place += 1 if values.ndim == 1 else values.shape[1]
        return found

    def function(self, program: Program, j: int | None = None) -> Function:
        """A program on numbers; with ``j``, that of a class."""
        effects = self._effects(j)
        steps = [Step(variable, self._write(value.given(effects))) for variable, value in program.steps]
        given = [
            table.variable
            for table, lookup in zip(self.tables, self.formula.lookups, strict=True)
            if program.names & set(lookup.numbers)
        ]
        result = Step("", self._write(program.result.given(effects)))
        return Function([*program.arguments, *given], steps, result)

    def rows(self, program: Program) -> Function:
        """A program on rows."""
        steps = [self._step(variable, value) for variable, value in program.steps]
        return Function(program.arguments, steps, self._step("", program.result))

    def _step(self, variable: str, value: Expression) -> Step:
        given = [argument.value for argument in value.arguments]
        if value.operation == "classes":
            self.classes = [self.function(program, j) for j, program in enumerate(value.value)]
            rows = dict(zip(("p", "rest"), given, strict=False))
            calls = [
                ", ".join(f"{rows[a]}[{j}]" if a in rows else a for a in each.arguments)
                for j, each in enumerate(self.classes)
            ]
            return Step(variable, calls=calls)
        if value.operation == "top":
            self.classes = [self.function(value.value[0])]
            given += [each for each in self.classes[0].arguments if each not in ("p", "rest")]
        if value.on_rows:
            self.used.add(value.operation)
            if isinstance(value.value, Constant):
                given.insert(0, self._constant(value.value))
            function, arguments = self.language.functions.get(value.operation, value.operation), ", ".join(given)
            return Step(variable, f"{function}({arguments})", function, arguments)
        elements = {row: name(f"{row}[j]") for row in value.names} | self._effects()
        return Step(variable, self._write(value.given(elements, lambda row: name(f"{self._constant(row)}[j]"))))

    def _write(self, formula: Expression) -> str:
        return Syntax(repr, self.language.functions, self.language.choice, self._cubic).write(formula)

    def _cubic(self, z: str, pieces: Pieces) -> str:
        table = f"PIECES_{len(self.blocks)}" if "cubic" in self.used else "PIECES"
        self.used.add("cubic")
        rows = [
            ", ".join(map(repr, [start, *cubic]))
            for start, cubic in zip(pieces.starts, pieces.coefficients, strict=True)
        ]
        self.blocks.append(Block(table, rows))
        return self.language.cubic.format(z=z, table=table, n=len(rows))

    def _constant(self, constant: Constant) -> str:
        opening, closing = self.language.brackets
        if isinstance(constant.values[0], list):
            rows = [f"    {self._bracketed(row, '    ')}," for row in constant.values]
            block = Block(constant.name, value="\n".join([opening, *rows, closing]), dimensions=2)
        else:
            block = Block(constant.name, value=self._bracketed(constant.values))
        self.blocks.append(block)
        return constant.name

    def _bracketed(self, values: Iterable[float], indent: str = "") -> str:
        """Numbers in brackets: in one line, or in as many of bounded width as they need."""
        opening, closing = self.language.brackets
        listed = ", ".join(map(repr, values))
        if len(indent) + len(listed) + 2 <= WIDTH:
            return opening + listed + closing
        inner = indent + "    "
        lines = textwrap.wrap(listed + ",", WIDTH, initial_indent=inner, subsequent_indent=inner)
        return "\n".join([opening, *lines, indent + closing])
