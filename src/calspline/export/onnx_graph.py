"""Writers of nodes, constants and formulas for ONNX models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper

from calspline._expression import Expression, Formula, Lookup, Pieces, Program
from calspline._input.scores import LARGEST_MARGIN, ROUNDING, ROW_SUM_TOLERANCE
from calspline.maps.structured import SAFE_EXPONENT

Dtype = Literal["float64", "float32"]
ML_DOMAIN = "ai.onnx.ml"
LABEL_ENCODER_SINCE = 2
NAMES = {
    "+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "negative": "Neg",
    "max": "Max", "min": "Min", "log": "Log", "exp": "Exp", "abs": "Abs",
    "sqrt": "Sqrt",
}  # fmt: skip
SUM_ROUNDING = 1e-5
"""Rounding error of sums of probabilities in single precision."""


class OnnxGraph:
    """Graph of a model, to which nodes and constants are added.

    Names that the model already has are not used again.
    """

    def __init__(self, model: ModelProto, dtype: Dtype) -> None:
        self.model = model
        self.dtype: Any = np.float64 if dtype == "float64" else np.float32
        self.element = TensorProto.DOUBLE if dtype == "float64" else TensorProto.FLOAT
        graph = model.graph
        self._names = {item.name for item in [*graph.input, *graph.initializer]}
        for node in graph.node:
            self._names.update([node.name, *node.output])
        self._constants: dict[tuple[str, bytes], str] = {}

    def unused(self, name: str) -> str:
        """Unused name with the given prefix."""
        while name in self._names:
            name = "calibrated_" + name
        self._names.add(name)
        return name

    def input(self, name: str, element: int, shape: list[Any]) -> str:
        """Add an input of the model."""
        name = self.unused(name)
        info = helper.make_tensor_value_info(name, element, shape)
        self.model.graph.input.append(info)
        return name

    def output(self, tensor: str, name: str, columns: int) -> None:
        """Make a tensor the only output of the model."""
        name = self.unused(name)
        node = helper.make_node("Identity", [tensor], [name], name=name)
        info = helper.make_tensor_value_info(name, self.element, ["N", columns])
        self.model.graph.node.append(node)
        del self.model.graph.output[:]
        self.model.graph.output.append(info)
        checker.check_model(self.model)

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return its output."""
        name = self.unused(f"{operation.lower()}_{len(self.model.graph.node)}")
        # Runtimes that fuse nodes need names to tell them apart.
        node = helper.make_node(operation, inputs, [name], name=name, **attributes)
        self.model.graph.node.append(node)
        return name

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Add a constant, or reuse an equal one."""
        with np.errstate(over="ignore"):
            array: NDArray[Any] = np.asarray(values, dtype=dtype or self.dtype)
        if np.isinf(array).any():
            raise ValueError(
                'dtype must be "float64" for this calibrator: its scores are beyond '
                "float32"
            )
        key = (f"{array.dtype}{array.shape}", array.tobytes())
        if key not in self._constants:
            name = self.unused(f"constant_{len(self._constants)}")
            self.model.graph.initializer.append(numpy_helper.from_array(array, name))
            self._constants[key] = name
        return self._constants[key]

    def limit(self, value: float) -> str:
        """A limit on numbers of this graph's type, which may be the largest one."""
        largest = float(np.finfo(self.dtype).max)
        return self.constant(min(max(value, -largest), largest))

    def cast(self, tensor: str) -> str:
        """Cast a tensor to this graph's type."""
        return self.node("Cast", tensor, to=self.element)

    def columns(self, tensor: str, places: Sequence[int]) -> str:
        """Select columns of a tensor; negative indices count from the last."""
        return self.node("Gather", tensor, self.constant(places, np.int64), axis=1)

    def sum(self, tensor: str, n_columns: int) -> str:
        """Row sums. In onnxruntime, ReduceSum fails on empty tensors."""
        return self.node("MatMul", tensor, self.constant(np.ones((n_columns, 1))))

    def require_opset(self, domain: str, version: int) -> None:
        """Import the operators of a domain."""
        for opset in self.model.opset_import:
            if opset.domain == domain:
                opset.version = max(opset.version, version)
                return
        self.model.opset_import.add(domain=domain, version=version)


@dataclass(frozen=True)
class EffectTensor:
    """Effects of the segments: one per row, or one per row and class."""

    name: str
    by_class: bool


def add_segments(
    graph: OnnxGraph, lookups: Sequence[Lookup]
) -> dict[str, EffectTensor]:
    """Add an input for each column of segments; return their effects by name."""
    effects = {}
    if lookups:
        graph.require_opset(ML_DOMAIN, LABEL_ENCODER_SINCE)
    for c, lookup in enumerate(lookups):
        name = "by" if len(lookups) == 1 else f"by_{c}"
        place = _add_encoder(graph, name, lookup.labels)
        for effect, values in lookup.numbers.items():
            table = graph.constant(values.reshape(len(lookup.labels) + 1, -1))
            rows = graph.node("Gather", table, place, axis=0)
            effects[effect] = EffectTensor(rows, by_class=values.ndim == 2)
    return effects


def _add_encoder(graph: OnnxGraph, name: str, labels: list[Any]) -> str:
    """Add an input of labels; return their codes, the last of which is for others."""
    if all(isinstance(label, str) for label in labels):
        element = TensorProto.STRING
        keys = {"keys_strings": labels}
    else:
        element = TensorProto.INT64
        keys = {"keys_int64s": _as_integers(labels)}
    return graph.node(
        "LabelEncoder",
        graph.input(name, element, ["N"]),
        domain=ML_DOMAIN,
        values_int64s=list(range(len(labels))),
        default_int64=len(labels),
        **keys,
    )


def _as_integers(labels: list[Any]) -> list[int]:
    for label in labels:
        if isinstance(label, str) or label != int(label):
            raise ValueError("segments must all be texts or all be integers for ONNX")
        if abs(label) >= 2**63:
            raise ValueError(
                f"segments must be integers that ONNX has; {label} is too large"
            )
    return [int(label) for label in labels]


def add_probabilities(
    graph: OnnxGraph,
    formula: Formula,
    effects: dict[str, EffectTensor],
    scores: str,
    n_columns: int,
) -> str:
    """Add a calibrator: from columns of scores to probabilities of all classes.

    Rows with invalid scores give NaN.
    """
    writer = FormulaWriter(graph, len(formula.classes), effects)
    doubt = _add_check(graph, formula, scores, n_columns)
    if formula.kind == "probability":
        at_least_zero = graph.node("Max", scores, graph.constant(0.0))
        scores = graph.node("Min", at_least_zero, graph.constant(1.0))
    if len(formula.classes) > 2:
        p = writer.write_program(formula.program, {"p": scores})
        return graph.node("Add", p, doubt)
    program = formula.program
    names = {"p": scores}
    if n_columns == 2:
        first = graph.columns(scores, [0])
        second = graph.columns(scores, [1])
        if formula.difference:
            names = {"p": graph.node("Sub", second, first)}
        elif formula.from_pair is not None:
            program = formula.from_pair
            names = {"p": second, "rest": first}
    p = writer.write_program(program, names)
    rest = graph.node("Sub", graph.constant(1.0), p)
    return graph.node("Add", graph.node("Concat", rest, p, axis=1), doubt)


def _add_check(graph: OnnxGraph, formula: Formula, scores: str, n_columns: int) -> str:
    """Tensor that is zero for valid rows and NaN for others."""
    if formula.kind == "probability":
        distance = graph.node("Abs", graph.node("Sub", scores, graph.constant(0.5)))
        valid = graph.node("LessOrEqual", distance, graph.constant(0.5 + ROUNDING))
    else:
        size = graph.node("Abs", scores)
        valid = graph.node("LessOrEqual", size, graph.limit(LARGEST_MARGIN))
    doubt = graph.sum(zero_where(graph, valid), n_columns)
    one_margin = len(formula.classes) == 2 and not formula.difference
    if n_columns == 1 or (formula.kind == "margin" and not one_margin):
        return doubt
    excess = distance_of_sum(graph, scores, n_columns)
    valid = graph.node("LessOrEqual", excess, graph.constant(ROW_SUM_TOLERANCE))
    return graph.node("Add", doubt, zero_where(graph, valid))


def refuse_probabilities(graph: OnnxGraph, margins: str, n_columns: int) -> str:
    """Set rows to NaN that look like probabilities instead of margins."""
    distance = graph.node("Abs", graph.node("Sub", margins, graph.constant(0.5)))
    is_inside = graph.node("LessOrEqual", distance, graph.constant(0.5))
    n_inside = graph.sum(graph.cast(is_inside), n_columns)
    is_outside = graph.node("Less", n_inside, graph.constant(n_columns - 0.5))
    excess = distance_of_sum(graph, margins, n_columns)
    is_off = graph.node("Greater", excess, graph.constant(SUM_ROUNDING))
    doubt = zero_where(graph, graph.node("Or", is_outside, is_off))
    return graph.node("Add", margins, doubt)


def distance_of_sum(graph: OnnxGraph, scores: str, n_columns: int) -> str:
    """Distance of row sums from one."""
    total = graph.sum(scores, n_columns)
    return graph.node("Abs", graph.node("Sub", total, graph.constant(1.0)))


def zero_where(graph: OnnxGraph, condition: str) -> str:
    """Zero where a condition holds, NaN elsewhere."""
    return graph.node("Where", condition, graph.constant(0.0), graph.constant(np.nan))


class FormulaWriter:
    """Writer of programs as nodes.

    ``effects`` are the names of the effects of segments.
    """

    def __init__(
        self, graph: OnnxGraph, n_classes: int, effects: dict[str, EffectTensor]
    ) -> None:
        self._graph = graph
        self._n_classes = n_classes
        self._effects = effects

    def write_program(
        self, program: Program, names: dict[str, str], j: int | None = None
    ) -> str:
        """Result of a program; with ``j``, that of one class."""
        graph = self._graph
        known = dict(names)
        for name, effect in self._effects.items():
            if name in program.names:
                known[name] = effect.name
                if effect.by_class and j is not None:
                    known[name] = graph.columns(effect.name, [j])
        for name, value in program.steps:
            known[name] = self._write(value, known)
        result = self._write(program.result, known)
        if program.arguments:
            return result
        # What is the same for all rows still has to have them.
        zeros = graph.node("Mul", known["p"], graph.constant(0.0))
        return graph.node("Add", zeros, result)

    def _write(self, formula: Expression, known: dict[str, str]) -> str:
        """Tensor of a formula."""
        graph = self._graph
        operation = formula.operation
        if operation == "number":
            return graph.constant(formula.value)
        if operation == "name":
            return known[formula.value]
        if operation == "constant":
            return graph.constant([formula.value.values])
        if operation == "log" and formula.arguments[0].operation == "max":
            # The logarithm is kept above a limit, not its argument: 1e-300 is zero in
            # float32.
            argument, least = formula.arguments[0].arguments
            log = graph.node("Log", self._write(argument, known))
            return graph.node("Max", log, graph.constant(np.log(least.value)))
        if operation in ("max", "min") and formula.arguments[1].operation == "number":
            value, limit = formula.arguments
            limited = self._write(value, known)
            return graph.node(NAMES[operation], limited, graph.limit(limit.value))
        tensors = [self._write(argument, known) for argument in formula.arguments]
        if formula.on_rows:
            return self._write_rows(formula, tensors)
        if operation == "cubic":
            return self._write_cubic(tensors[0], formula.value)
        if operation == "asinh":
            return self._write_asinh(tensors[0])
        if operation == "between":
            low, high = formula.value
            above = graph.node("LessOrEqual", graph.constant(low), tensors[0])
            below = graph.node("LessOrEqual", tensors[0], graph.constant(high))
            return graph.node("Where", graph.node("And", above, below), *tensors[1:])
        return graph.node(NAMES[operation], *tensors)

    def _write_rows(self, formula: Expression, rows: list[str]) -> str:
        """Tensor of an operation on rows."""
        graph = self._graph
        m = self._n_classes
        operation = formula.operation
        y = rows[0]
        if operation == "softmax":
            # It leaves no more than rounding to do, but may make a probability exactly
            # zero.
            least = float(np.finfo(np.float32).tiny)
            if graph.dtype is np.float64:
                least = float(np.exp(-SAFE_EXPONENT))
            p = graph.node("Softmax", y, axis=1)
            return graph.node("Max", p, graph.constant(least))
        if operation == "log_softmax":
            return graph.node("LogSoftmax", y, axis=1)
        if operation == "centred":
            place = graph.node("ArgMax", y, axis=1, keepdims=1)
            largest = graph.node("GatherElements", y, place, axis=1)
            return graph.node("Sub", y, largest)
        if operation == "normalise":
            return graph.node("Div", y, graph.sum(y, m))
        if operation == "rest":
            return self._write_rest(y)
        if operation == "matrix":
            matrix = np.transpose(formula.value.values)
            return graph.node("MatMul", y, graph.constant(matrix))
        values = []
        for j, program in enumerate(formula.value):
            names = {"p": graph.columns(y, [j])}
            if "rest" in program.arguments:
                names["rest"] = graph.columns(rows[1], [j])
            values.append(self.write_program(program, names, j))
        return graph.node("Concat", *values, axis=1)

    def _write_rest(self, p: str) -> str:
        """Probability of all other classes; for the largest, by summation."""
        graph = self._graph
        place = graph.node("ArgMax", p, axis=1, keepdims=1)
        places = graph.constant([range(self._n_classes)], np.int64)
        is_top = graph.node("Equal", place, places)
        others = graph.node("Where", is_top, graph.constant(0.0), p)
        rest = graph.node("Sub", graph.constant(1.0), p)
        return graph.node("Where", is_top, graph.sum(others, self._n_classes), rest)

    def _write_asinh(self, x: str) -> str:
        """``sign(x) log(|x| + sqrt(x^2 + 1))``; runtimes have Asinh only in float32."""
        graph = self._graph
        size = graph.node("Abs", x)
        square = graph.node("Add", graph.node("Mul", x, x), graph.constant(1.0))
        root = graph.node("Sqrt", square)
        log = graph.node("Log", graph.node("Add", size, root))
        return graph.node("Mul", graph.node("Sign", x), log)

    def _write_cubic(self, x: str, pieces: Pieces) -> str:
        """The piece that ``x`` lies in, then its start and coefficients by index."""
        graph = self._graph
        breaks, stretch, high, low, columns = pieces.tables(graph.dtype)
        piece = self._write_piece(x, breaks)

        def look_up(values: NDArray[Any]) -> str:
            return graph.node("Gather", graph.constant(values), piece)

        if stretch is not None:
            x = graph.node("Mul", x, look_up(stretch))
        t = graph.node("Sub", x, look_up(high))
        if low.any():
            t = graph.node("Sub", t, look_up(low))
        if pieces.unit != 1.0:
            t = graph.node("Div", t, graph.constant(pieces.unit))
        value = look_up(columns[0])
        for column in columns[1:]:
            value = graph.node("Add", graph.node("Mul", value, t), look_up(column))
        return value

    def _write_piece(self, x: str, breaks: NDArray[Any]) -> str:
        """Number of breaks that are at most ``x``."""
        graph = self._graph
        last = graph.constant([-1], np.int64)
        column = graph.node("Unsqueeze", x, last)
        is_above = graph.node("GreaterOrEqual", column, graph.constant(breaks))
        count = graph.sum(graph.cast(is_above), len(breaks))
        return graph.node(
            "Cast", graph.node("Squeeze", count, last), to=TensorProto.INT64
        )
