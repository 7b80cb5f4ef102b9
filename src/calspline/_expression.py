"""Formulas of calibrators, independent of the language of an export.

An :class:`Expression` is arithmetic on numbers and names. A :class:`Program` is named
steps, and a :class:`Formula` is the program of a calibrator with what there is to know
about its scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array

ROW_OPERATIONS = (
    "softmax",
    "log_softmax",
    "centred",
    "normalise",
    "rest",
    "matrix",
    "classes",
)


@dataclass(frozen=True, eq=False)
class Expression:
    """An operation on expressions, or a number or name.

    Operations are ``+ - * / negative max min log exp asinh abs sqrt``; ``number`` and
    ``name``, which hold a ``value``; ``between``, which chooses its second argument if
    the first lies in ``value``, else the third; and ``cubic``, the curve in ``value``
    of its argument. On rows, which have a number for each class, all of these work
    class by class; ``constant`` is a row, the same for all scores.

    Some operations are on whole rows, which have to be names (see
    :data:`ROW_OPERATIONS`):

    - ``softmax`` and ``log_softmax``;
    - ``centred``: less the largest of the row;
    - ``normalise``: divided by the sum of the row;
    - ``rest``: the probability of all classes but one. For the most probable class it
      is the sum of the others, which ``1 - p`` would round away;
    - ``matrix``: the product of the matrix in ``value`` with the row;
    - ``classes``: the programs in ``value``, one for each class, of that class's
      numbers in the rows.
    """

    operation: str
    arguments: tuple[Expression, ...] = ()
    value: Any = None

    def __add__(self, other: Expression | float) -> Expression:
        other = expression(other)
        if other.is_negative:
            return Expression("-", (self, number(-other.value)))
        return Expression("+", (self, other))

    def __sub__(self, other: Expression | float) -> Expression:
        other = expression(other)
        if other.is_negative:
            return Expression("+", (self, number(-other.value)))
        return Expression("-", (self, other))

    def __mul__(self, other: Expression | float) -> Expression:
        return Expression("*", (self, expression(other)))

    def __truediv__(self, other: Expression | float) -> Expression:
        return Expression("/", (self, expression(other)))

    def __radd__(self, other: float) -> Expression:
        return number(other) + self

    def __rsub__(self, other: float) -> Expression:
        return number(other) - self

    def __rmul__(self, other: float) -> Expression:
        return number(other) * self

    def __rtruediv__(self, other: float) -> Expression:
        return number(other) / self

    def __neg__(self) -> Expression:
        return Expression("negative", (self,))

    @property
    def is_negative(self) -> bool:
        """Whether it is a negative number."""
        return self.operation == "number" and bool(self.value < 0.0)

    @property
    def on_rows(self) -> bool:
        """Whether it is an operation on whole rows."""
        return self.operation in ROW_OPERATIONS

    @property
    def names(self) -> list[str]:
        """All names in the formula, including repetitions."""
        if self.operation == "name":
            return [self.value]
        return [used for argument in self.arguments for used in argument.names]

    def clipped(self, low: float, high: float) -> Expression:
        """The expression, limited to the range from ``low`` to ``high``."""
        return call("min", call("max", self, low), high)

    def given(
        self,
        values: Mapping[str, Expression],
        constant: Callable[[Constant], Expression] | None = None,
    ) -> Expression:
        """Replace some names and constant rows."""
        if self.operation == "name":
            return values.get(self.value, self)
        if self.operation == "constant" and constant is not None:
            return constant(self.value)
        return replace(
            self,
            arguments=tuple(
                argument.given(values, constant) for argument in self.arguments
            ),
        )


def number(value: float) -> Expression:
    """Expression of a finite number."""
    if not np.isfinite(value):
        raise ValueError(f"a number in a formula must be finite; got {value}")
    return Expression("number", value=float(value))


def name(value: str) -> Expression:
    """Expression of a name."""
    return Expression("name", value=value)


def expression(value: Expression | float) -> Expression:
    """Convert numbers to expressions."""
    return value if isinstance(value, Expression) else number(value)


def call(function: str, *arguments: Expression | float) -> Expression:
    """Function call."""
    return Expression(function, tuple(expression(argument) for argument in arguments))


def between(
    value: Expression,
    limits: tuple[float, float],
    inside: Expression,
    outside: Expression,
) -> Expression:
    """``inside`` where ``limits[0] <= value <= limits[1]``, else ``outside``."""
    if not np.isfinite(limits).all():
        raise ValueError(f"limits in a formula must be finite; got {limits}")
    return Expression("between", (value, inside, outside), limits)


NUMPY: dict[str, Callable[..., Array]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide,
    "negative": np.negative, "abs": np.abs,
    "max": np.maximum, "min": np.minimum, "log": np.log, "exp": np.exp,
    "asinh": np.arcsinh, "sqrt": np.sqrt,
}  # fmt: skip


def evaluate(formula: Expression, values: Mapping[str, Array]) -> Array:
    """Evaluate a formula, given the values of its names."""
    if formula.operation == "number":
        return np.asarray(formula.value)
    if formula.operation == "name":
        return values[formula.value]
    arguments = [evaluate(argument, values) for argument in formula.arguments]
    if formula.operation == "between":
        low, high = formula.value
        return np.where((arguments[0] >= low) & (arguments[0] <= high), *arguments[1:])
    function = NUMPY[formula.operation]
    return np.asarray(
        function(*arguments) if len(arguments) == 1 else reduce(function, arguments)
    )


class Tables(NamedTuple):
    """Breaks of a curve and tables of its pieces, in a floating-point type.

    Starts are sums of two, ``high`` and ``low``, so that float32 knows the distance
    from them as well as it knows the score; breaks are rounded up, as no score lies
    between them and what they are rounded from. Where slopes are beyond float32, scores
    and starts have to be multiplied by ``stretch``.
    """

    breaks: NDArray[Any]
    stretch: Array | None
    high: NDArray[Any]
    low: Array
    columns: Array


def rounded(exact: Array, dtype: Any, *, up: bool) -> NDArray[Any]:
    """Round to numbers of a type, never down or never up."""
    with np.errstate(over="ignore"):
        nearest = exact.astype(dtype)
    wrong = nearest < exact if up else nearest > exact
    return np.where(
        wrong, np.nextafter(nearest, dtype(np.inf if up else -np.inf)), nearest
    )


STEEP, STRETCH = 1e30, 2.0**100
"""Slopes beyond which float32 requires a stretched distance, and the factor."""
MAX_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Pieces:
    """A curve in ``z = (x - origin) / unit``: cubics in the distance from ``starts``.

    There is one before, between and after the ``breaks``.
    """

    breaks: list[float]
    coefficients: list[list[float]]
    origin: float = 0.0
    unit: float = 1.0

    def place(self, x: Expression) -> Expression:
        """Formula of ``z``."""
        x = x - self.origin if self.origin else x
        return x / self.unit if self.unit != 1.0 else x

    @property
    def starts(self) -> list[float]:
        """Origin of each piece: its left end; for the first piece, its right end."""
        return [self.breaks[0], *self.breaks]

    @property
    def columns(self) -> list[list[float]]:
        """Coefficients of each power over all pieces, highest power first."""
        return [list(column) for column in zip(*self.coefficients, strict=True)]

    def tables(self, dtype: Any) -> Tables:
        """Tables for pieces as functions of ``x``, in a NumPy type."""
        starts = self.origin + self.unit * np.array(self.starts)
        columns = np.array(self.columns)
        stretch = None
        breaks = rounded(starts[1:], dtype, up=True)
        steep = np.abs(columns[:3]).max(axis=0) > STEEP
        if dtype is np.float32 and steep.any():
            stretch = np.where(steep, STRETCH, 1.0)
            starts = starts * stretch
            # What is still too steep lies between two neighbors of float32, where no
            # score is.
            columns = np.clip(
                columns / stretch ** np.array([[3.0], [2.0], [1.0], [0.0]]),
                -MAX_FLOAT32,
                MAX_FLOAT32,
            )
        with np.errstate(over="ignore"):
            high = starts.astype(dtype)
        return Tables(breaks, stretch, high, starts - high, columns)

    @property
    def bent(self) -> bool:
        """Whether the curve is not piecewise linear."""
        return any(a or b for a, b, _, _ in self.coefficients)

    @cached_property
    def line(self) -> tuple[float, float] | None:
        """Slope and value at zero, if all pieces are on one line."""
        a, b, c, d = np.array(self.coefficients).T
        flat = not a.any() and not b.any() and np.ptp(c) == 0.0
        if not flat or (
            c[0] != 0.0 and (self.breaks[0] != 0.0 or len(self.breaks) != 2)
        ):
            return None
        on_line = d[:2] == d[0], d[2:] == d[0] + c[0] * np.array(self.breaks[1:])
        if all(part.all() for part in on_line):
            return (float(c[0]), float(d[0]))
        return None


@dataclass(frozen=True, eq=False)
class Constant:
    """A named row or matrix of numbers."""

    name: str
    values: list[Any]

    @property
    def expression(self) -> Expression:
        """Expression of the row."""
        return Expression("constant", value=self)


@dataclass(frozen=True, eq=False)
class Program:
    """Named steps, each of which may use earlier ones, and a result.

    It starts from ``p``: a score, or a row of them. The program of one class may start
    from ``rest``, too, the probability of all other classes. With segments, further
    names are those of a :class:`Lookup`. A step on rows is one of the
    :data:`ROW_OPERATIONS` or made class by class; the result is one of the former.
    """

    steps: list[tuple[str, Expression]]
    result: Expression

    @property
    def arguments(self) -> list[str]:
        """Names of the inputs; empty if the result is constant."""
        return [name for name in ("p", "rest") if name in self.names]

    @property
    def names(self) -> set[str]:
        """All names in use, including those in programs of classes."""
        inner = [
            program
            for formula in self.formulas
            if isinstance(formula.value, list)
            for program in formula.value
        ]
        own = {name for formula in self.formulas for name in formula.names}
        return own.union(*(program.names for program in inner))

    @property
    def formulas(self) -> list[Expression]:
        """Formulas of the steps and of the result."""
        return [*[value for _, value in self.steps], self.result]

    def trimmed(self) -> Program:
        """Remove unused steps."""
        kept = []
        used = set(self.result.names)
        for variable, value in reversed(self.steps):
            if variable in used:
                kept.append((variable, value))
                used.update(value.names)
        return Program(kept[::-1], self.result)


@dataclass(frozen=True, eq=False)
class Lookup:
    """Values of names in a program by segment of a column.

    ``numbers`` has for each name a number for every one of the ``labels`` and, last,
    one for a segment that is none of them; or rows, with a number for each class, of
    which the program of one class sees its own. ``column`` is the name that the column
    had in the fit, if any.
    """

    column: str | None
    labels: list[Any]
    numbers: dict[str, Array]

    def restricted(self, names: set[str]) -> Lookup:
        """Restrict to some names."""
        return replace(
            self,
            numbers={
                name: each for name, each in self.numbers.items() if name in names
            },
        )


@dataclass(frozen=True, eq=False)
class Formula:
    """Complete description of what a calibrator computes.

    ``program`` starts from one score for two classes, else from a row. For two classes
    ``from_pair`` starts from the probabilities of both; ``difference`` says that two
    margins count by their difference. With segments, there is a lookup for each column
    of them.
    """

    classes: list[Any]
    kind: Literal["probability", "margin"]
    program: Program
    from_pair: Program | None = None
    difference: bool = False
    lookups: Sequence[Lookup] = ()


SMALLEST_DIFFERENCE = 1e-300
"""Smaller differences of logits are zero."""


def logits_in_unit(unit: float, least: float) -> Program:
    """Logits times ``unit`` relative to the largest of the row, limited below."""
    d = call("max", name("d"), least / unit)
    # PostgreSQL takes it for an error if the product of a tiny difference vanishes.
    tiny = (-SMALLEST_DIFFERENCE, 0.0)
    value = unit * between(d, tiny, number(0.0), d)
    return Program([("d", call("centred", name("p")))], value)


def one_vs_rest(programs: list[Program], scores: Program) -> Program:
    """Program that evaluates one program per class, then normalizes."""
    steps = [*scores.steps]
    p = scores.result
    if steps:
        steps.append(("l", p))
        p = name("l")
    rows = [p]
    if any("rest" in program.arguments for program in programs):
        steps.append(("rest", call("rest", p)))
        rows.append(name("rest"))
    steps.append(("q", Expression("classes", tuple(rows), programs)))
    return Program(steps, call("normalise", name("q")))
