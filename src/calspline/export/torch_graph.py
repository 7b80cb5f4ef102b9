"""Formulas as graphs of PyTorch's operations.

Curves are tables of cells of equal width, so that a cell is found by a product rather than by bisection.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx

from calspline.arrays import Array
from calspline.expression import LEAST_SHARE, Expression, Formula, Pieces, Program, rounded
from calspline.fitting.basis import PiecewiseCubic
from calspline.scores import LARGEST_MARGIN, ROUNDING, ROW_SUM_TOLERANCE

FEWEST_CELLS, MOST_CELLS, MOST_LINES = 256, 1 << 14, 1 << 15


class CellTable(NamedTuple):
    """Polynomials on cells of equal width, in ``t = (x - start) / width`` less the cell; the outer two have no end."""

    start: float
    width: float
    coefficients: Array


def table_of(pieces: Pieces, exact: float, eps: float, degree: int = 3, most: int = MOST_CELLS) -> CellTable | None:
    """The table of a curve in cubics or in lines, of so many cells at most.

    None if it has corners, or is so steep that a place in the table is not exact.
    """
    breaks = np.array(pieces.breaks)
    curve = PiecewiseCubic(breaks, np.array(pieces.columns))
    low, high = pieces.breaks[0], pieces.breaks[-1]
    if np.abs(curve.slope(breaks)).max() * (high - low) * eps > 100.0 * exact:
        return None
    a, b, c, _ = curve.coefficients[:, -2]
    gap, n = breaks[-1] - breaks[-2], FEWEST_CELLS
    end = (3.0 * a * gap + 2.0 * b) * gap + c
    while n <= most:
        h = (high - low) / n
        edges = np.linspace(low, high, n + 1)
        f, slope = curve(edges), h * curve.slope(edges)
        slope[-1] = h * end  # of the cubic, not of the line after it
        rise, left, right = np.diff(f), slope[:-1], slope[1:]
        if degree == 1:
            inner, cell = np.stack([rise, f[:-1]], axis=1), np.arange(n)
        else:
            inner = np.stack([left + right - 2.0 * rise, 3.0 * rise - 2.0 * left - right, left, f[:-1]], axis=1)
            cell = np.empty(0, dtype=np.intp)  # one without a break has its very cubic
        cell = np.concatenate([cell, np.minimum(((breaks - low) / h).astype(np.intp), n - 1)])
        probes = np.concatenate([breaks, *(low + h * (cell + part) for part in (0.25, 0.5, 0.75))])
        cell = np.concatenate([cell[-len(breaks) :], np.tile(cell, 3)])
        if np.abs(horner(inner[cell].T, (probes - low) / h - cell) - curve(probes)).max() <= exact:
            slopes = h * curve.coefficients[2, [0, -1]]
            ends = np.zeros((2, degree + 1))
            ends[:, -2:] = [[slopes[0], f[0] - slopes[0]], [slopes[1], f[-1]]]
            table = np.concatenate([ends[:1], inner, ends[1:]])
            return CellTable(pieces.origin + pieces.unit * low, pieces.unit * h, table)
        n *= 2
    return None


FUNCTIONS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "negative": operator.neg,
    "abs": torch.abs, "log": torch.log, "exp": torch.exp, "asinh": torch.asinh, "sqrt": torch.sqrt,
    "logistic": torch.sigmoid,
}  # fmt: skip
NUMPY = {torch.float64: np.float64, torch.float32: np.float32}
SHORT = 16
"""Rows of fewer numbers have a softmax in steps, which on a processor takes a sixth of the time of torch.softmax."""
EXACT = {torch.float64: 2e-10, torch.float32: 1e-7}
"""How far a curve's table may be from it."""
STRAIGHT = 4e-7
"""The same for a table of lines, with which float32 does: to look up numbers is what a curve costs."""


def logistic_of(formula: Expression) -> Expression | None:
    """The ``y`` of ``1 / (1 + exp(-y))``."""
    match formula:
        case Expression("/", (_, Expression("+", (_, Expression("exp", (Expression("negative", (y,)),)))))):
            return y
    return None


def horner(coefficients: Any, t: Any, step: Callable[..., Any] = lambda b, a, t: a * t + b) -> Any:
    """A polynomial, of coefficients from the highest power on."""
    value = coefficients[0]
    for each in coefficients[1:]:
        value = step(each, value, t)
    return value


class Writer:
    """A graph of operations on tensors: formulas of several classes, which differ in numbers alone, are one."""

    def __init__(self, formula: Formula, dtype: Any, axis: int | None = None) -> None:
        self._formula, self._dtype, self._of_rows = formula, dtype, axis is not None
        self._axis = -1 if axis is None else axis
        self._numpy: Any = NUMPY[dtype]
        self._eps = float(torch.finfo(dtype).eps)
        self._graph = fx.Graph()
        self._tracer = fx.proxy.GraphAppendingTracer(self._graph)
        self._tensors: dict[str, Any] = {}
        self._known: dict[tuple[str, bytes], Any] = {}
        self._tables: dict[int, CellTable | None] = {}
        self._effects: dict[str, Any] = {}
        self._of_classes: set[str] = set()

    def input(self, name: str) -> Any:
        """One more input, in this graph's type."""
        return fx.Proxy(self._graph.placeholder(name), self._tracer).to(self._dtype)

    def look_up(self) -> None:
        """One more input: codes of segments for each column of them, which give the names of effects their tensors."""
        codes = fx.Proxy(self._graph.placeholder("codes"), self._tracer)
        for c, lookup in enumerate(self._formula.lookups):
            S, code = len(lookup.labels), codes[c]
            place = torch.where((code >= 0) & (code < S), code, S)
            for name, values in lookup.numbers.items():
                found = torch.nn.functional.embedding(place, self._constant(values.reshape(S + 1, -1)))
                if not self._of_rows:
                    found = found.squeeze(-1)
                self._effects[name] = found.transpose(-1, -2) if self._axis == -2 else found
                self._of_classes |= {name} if values.ndim == 2 else set()

    def module(self, result: Any) -> Any:
        """The graph as a module."""
        self._graph.output(result.node)
        return fx.GraphModule(self._tensors, self._graph)

    def proper(self, scores: Any) -> Any:
        """Probabilities that a model rounded past 0 or 1 are put back."""
        return torch.clamp(scores, 0.0, 1.0) if self._formula.kind == "probability" else scores

    def doubt(self, scores: Any) -> Any:
        """Zero for scores, NaN for what is none."""
        scores = scores.detach()
        if self._formula.kind == "probability":
            return self.zero_or_nan(torch.abs(scores - 0.5) <= 0.5 + ROUNDING)
        return self.zero_or_nan(torch.abs(scores) <= self._limit(LARGEST_MARGIN))

    def doubt_of_rows(self, rows: Any) -> Any:
        """The same for whole rows."""
        rows = rows.detach()
        total = torch.sum(rows, dim=self._axis, keepdim=True)
        if self._formula.kind == "margin":
            return 0.0 * total
        low = torch.amin(rows, dim=self._axis, keepdim=True)
        return self.zero_or_nan((low >= -ROUNDING) & (torch.abs(total - 1.0) <= ROW_SUM_TOLERANCE))

    def zero_or_nan(self, good: Any) -> Any:
        """Zero where it is good, else NaN."""
        return torch.where(good, self._constant(0.0), self._constant(np.nan))

    def value(self, program: Program, known: dict[str, Any], doubt: Any) -> Any:
        """The result of a program, or NaN where there is doubt."""
        result = self._values([program], known)
        if program.result.operation == "softmax":
            # It may have made a probability exactly zero.
            return torch.maximum(result, doubt + float(np.finfo(self._numpy).tiny))
        # What is the same for all rows still has to have them.
        return (result if program.arguments else result + 0.0 * known["p"]) + doubt

    def _values(self, programs: list[Program], known: dict[str, Any]) -> Any:
        """The results of programs that differ in their numbers alone, one for each class in ``known``."""
        known = self._effects | known
        for i, (name, _) in enumerate(programs[0].steps):
            known[name] = self._write([program.steps[i][1] for program in programs], known)
        return self._write([program.result for program in programs], known)

    def _write(self, formulas: list[Expression], known: dict[str, Any]) -> Any:
        """The tensor of formulas that differ in their numbers alone; of numbers that do not, the number."""
        formula, operation = formulas[0], formulas[0].operation
        if operation == "name":
            return known[formula.value]
        if operation == "number":
            return self._numbers([each.value for each in formulas])
        if operation == "constant":
            return self._row(formula.value.values)
        columns = list(zip(*[each.arguments for each in formulas], strict=True))
        if logistic_of(formula) is not None:
            operation, columns = "logistic", [tuple(cast(Expression, logistic_of(each)) for each in formulas)]
        if operation == "log" and formula.arguments[0].operation == "max":
            least = formula.arguments[0].arguments[1].value
            return self._log(self._write([each.arguments[0].arguments[0] for each in formulas], known), least)
        if operation == "min" and formula.arguments[0].operation == "max":  # clipped
            inner = [each.arguments[0].arguments for each in formulas]
            x = self._write([arguments[0] for arguments in inner], known)
            return self._clamp(x, [low.value for _, low in inner], [high.value for high in columns[1]])
        if operation in ("max", "min") and formula.arguments[1].operation == "number":
            x = self._write(list(columns[0]), known)
            limit = self._numbers([self._limit(end.value) for end in columns[1]])
            return torch.clamp(x, **{"min" if operation == "max" else "max": limit})
        tensors = [self._write(list(column), known) for column in columns]
        if formula.on_rows:
            return self._row_operation(formula, tensors)
        if operation == "cubic":
            return self._cubic(tensors[0], [each.value for each in formulas])
        if operation == "between":
            lows, highs = np.array([each.value for each in formulas]).T
            # The nearest of this graph's type within the limits have the same numbers between them.
            low = self._numbers(rounded(lows, self._numpy, up=True).tolist())
            high = self._numbers(rounded(highs, self._numpy, up=False).tolist())
            if isinstance(low, float) and low == high == tensors[1] and formula.arguments[0] is formula.arguments[2]:
                return tensors[2]
            return torch.where((tensors[0] >= low) & (tensors[0] <= high), tensors[1], tensors[2])
        if not any(isinstance(tensor, fx.Proxy) for tensor in tensors):
            tensors[0] = self._constant(tensors[0])
        return FUNCTIONS[operation](*tensors)

    def _numbers(self, values: list[float]) -> Any:
        """A number, or a row of those that differ."""
        self._array(values)  # checks them
        return values[0] if len(set(values)) == 1 else self._row(values)

    def _row(self, values: Any) -> Any:
        """A constant with a number for each class."""
        return self._constant(np.reshape(values, (-1,) + (1,) * (-1 - self._axis)))

    def _constant(self, values: Any, dtype: Any = None) -> Any:
        """A constant tensor; equal ones are the same."""
        array = self._array(values, dtype)
        key = f"{array.dtype}{array.shape}", array.tobytes()
        if key not in self._known:
            name = f"constant_{len(self._tensors)}"
            self._tensors[name] = torch.from_numpy(array.copy())
            self._known[key] = name
        return fx.Proxy(self._graph.get_attr(self._known[key]), self._tracer)

    def _array(self, values: Any, dtype: Any = None) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            array = np.asarray(values, dtype=dtype or self._numpy)
        if np.isinf(array).any():
            raise ValueError("dtype must be torch.float64 for this calibrator: its scores are beyond float32")
        return array

    def _limit(self, value: float) -> float:
        """A limit on numbers of this graph's type, which may be the largest there is."""
        largest = float(np.finfo(self._numpy).max)
        return min(max(value, -largest), largest)

    def _clamp(self, x: Any, lows: list[float], highs: list[float]) -> Any:
        low, high = (self._numbers([self._limit(end) for end in ends]) for ends in (lows, highs))
        if isinstance(low, float) == isinstance(high, float):
            return torch.clamp(x, low, high)
        return torch.clamp(torch.clamp(x, min=low), max=high)

    def _log(self, x: Any, least: float) -> Any:
        """``log(max(x, least))``, where ``least`` may be zero in float32."""
        smallest = float(np.finfo(self._numpy).smallest_subnormal)
        if least >= smallest:
            return torch.log(torch.clamp(x, min=least))
        return torch.where(x > 0.0, torch.log(torch.clamp(x, min=smallest)), float(np.log(least)))

    def _row_operation(self, formula: Expression, rows: list[Any]) -> Any:
        y, operation, axis = rows[0], formula.operation, self._axis
        if operation in ("softmax", "log_softmax"):
            return self._softmax(y, logarithm=operation == "log_softmax")
        if operation == "centred":
            return y - torch.amax(y, dim=axis, keepdim=True)
        if operation == "normalise":
            return y / torch.sum(y, dim=axis, keepdim=True)
        if operation == "rest":
            return self._rest(y)
        if operation == "matrix":
            matrix = self._constant(formula.value.values)
            return torch.nn.functional.linear(y, matrix) if axis == -1 else torch.matmul(matrix, y)
        return self._top(formula.value[0], y) if operation == "top" else self._classes(formula.value, rows)

    def _softmax(self, y: Any, *, logarithm: bool) -> Any:
        axis = self._axis
        if axis != -1 or len(self._formula.classes) >= SHORT:
            return torch.log_softmax(y, dim=axis) if logarithm else torch.softmax(y, dim=axis)
        y = y - torch.amax(y, dim=axis, keepdim=True)
        powers = torch.exp(y)
        total = torch.sum(powers, dim=axis, keepdim=True)
        return y - torch.log(total) if logarithm else powers / total

    def _rest(self, p: Any) -> Any:
        top = torch.argmax(p, dim=self._axis, keepdim=True)
        others = torch.sum(torch.scatter(p, self._axis, top, 0.0), dim=self._axis, keepdim=True)
        return torch.scatter(1.0 - p, self._axis, top, others)

    def _top(self, program: Program, y: Any) -> Any:
        """A program for the largest; the others share the rest."""
        axis = self._axis
        top = torch.argmax(y, dim=axis, keepdim=True)
        p = torch.gather(y, axis, top)
        rest = torch.sum(torch.scatter(y, axis, top, 0.0), dim=axis, keepdim=True)
        q = self._values([program], {"p": p, "rest": rest}) + (0.0 if program.arguments else 0.0 * p)
        others = torch.scatter(torch.clamp(y, min=LEAST_SHARE), axis, top, 0.0)
        others = others * ((1.0 - q) / torch.sum(others, dim=axis, keepdim=True))
        return torch.scatter(others, axis, top, q)

    def _classes(self, programs: list[Program], rows: list[Any]) -> Any:
        """A program for each class; those that differ in their numbers alone together."""
        groups: dict[Any, list[int]] = {}
        for j, program in enumerate(programs):
            groups.setdefault(self._shape(program, j), []).append(j)
        results = []
        for members in groups.values():
            used = self._of_classes & programs[members[0]].names
            chosen = dict(zip(("p", "rest"), rows, strict=False)) | {name: self._effects[name] for name in used}
            if len(groups) > 1:
                index = self._constant(members, np.int64)
                chosen = {name: torch.index_select(row, self._axis, index) for name, row in chosen.items()}
            result = self._values([programs[j] for j in members], chosen)
            results.append(result if programs[members[0]].arguments else result + 0.0 * chosen["p"])
        if len(results) == 1:
            return results[0]
        order = np.argsort(np.concatenate(list(groups.values())))
        return torch.index_select(torch.cat(results, dim=self._axis), self._axis, self._constant(order, np.int64))

    def _shape(self, program: Program, j: int) -> Any:
        """What programs have in common that differ in their numbers alone; ``j`` if there are no others like it."""

        def shape(formula: Expression) -> Any:
            if formula.operation == "cubic":
                return (j if self._table(formula.value) is None else "table", shape(formula.arguments[0]))
            value = formula.value if formula.operation == "name" else None
            return formula.operation, value, tuple(shape(argument) for argument in formula.arguments)

        return tuple(shape(formula) for formula in program.formulas)

    def _cubic(self, x: Any, curves: list[Pieces]) -> Any:
        tables = [self._table(pieces) for pieces in curves]
        if None in tables:
            return self._by_breaks(x, curves[0])
        if self._dtype == torch.float32:
            lines = [table_of(pieces, STRAIGHT, self._eps, 1, MOST_LINES // len(curves)) for pieces in curves]
            tables = tables if None in lines else lines
        return self._by_cells(x, cast(list[CellTable], tables))

    def _by_cells(self, x: Any, tables: list[CellTable]) -> Any:
        """The cell that ``x`` lies in is a product; the first and the last go on for ever."""
        sizes = [len(table.coefficients) for table in tables]
        per_unit = self._numbers([1.0 / table.width for table in tables])
        s = (x - self._numbers([table.start - table.width for table in tables])) * per_unit
        cell = self._clamp(torch.floor(s.detach()), [0.0] * len(sizes), [size - 1.0 for size in sizes])
        t, i = s - cell, cell.to(torch.int32)
        if len(tables) > 1:
            first = np.cumsum([0, *sizes[:-1]])
            i = i + self._constant(first.reshape((-1,) + (1,) * (-1 - self._axis)), np.int32)
        i = torch.clamp(i, 0, sum(sizes) - 1).flatten()  # NaN is no cell
        columns = np.concatenate([table.coefficients for table in tables]).T
        return horner([self._chosen(column, i, t) for column in columns], t, torch.addcmul)

    def _chosen(self, values: Any, i: Any, like: Any) -> Any:
        """The values with these numbers, in the shape of another tensor; faster than ``values[i]``."""
        return torch.index_select(self._constant(values), 0, i).reshape(like.shape)

    def _by_breaks(self, x: Any, pieces: Pieces) -> Any:
        """The piece that ``x`` lies in by bisection."""
        breaks, stretch, high, low, columns = pieces.tables(self._numpy)
        i = torch.bucketize(x.detach().contiguous(), self._constant(breaks), right=True, out_int32=True).flatten()
        if stretch is not None:
            x = x * self._chosen(stretch, i, x)
        start, rest, *chosen = (self._chosen(values, i, x) for values in (high, low, *columns))
        return horner(chosen, (x - start - rest) / self._numbers([pieces.unit]), torch.addcmul)

    def _table(self, pieces: Pieces) -> CellTable | None:
        if id(pieces) not in self._tables:
            self._tables[id(pieces)] = table_of(pieces, EXACT[self._dtype], self._eps)
        return self._tables[id(pieces)]
