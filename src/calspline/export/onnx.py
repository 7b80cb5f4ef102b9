"""Calibrators as ONNX models."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "to_onnx needs onnx: pip install 'calspline[onnx]'"
    ) from error

from calspline._expression import Expression, Formula, Lookup, Pieces, Program
from calspline._input.options import check_one_of
from calspline._input.scores import LARGEST_MARGIN, ROUNDING, ROW_SUM_TOLERANCE, Kind
from calspline._version import __version__
from calspline.export.formulas import formula_of
from calspline.export.onnx_classifier import (
    IR_VERSION,
    OPSET,
    averaged_models,
    check_agreement,
    converted,
    is_classifier,
    scores_of,
    with_usual_opset,
)
from calspline.maps.structured import SAFE_EXPONENT

Dtype = Literal["float64", "float32"]
ML, LABEL_ENCODER_SINCE = "ai.onnx.ml", 2
NAMES = {
    "+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "negative": "Neg",
    "max": "Max", "min": "Min", "log": "Log", "exp": "Exp", "abs": "Abs",
    "sqrt": "Sqrt",
}  # fmt: skip
OPPOSITE = 1e-3
"""Share of their size by which two margins that are opposite may differ."""
SUM_ROUNDING = 1e-5
"""By how much single precision may miss that probabilities sum to one."""


def to_onnx(
    calibrator: Any,
    *,
    dtype: Dtype = "float64",
    after: Any = None,
    output: str | None = None,
) -> Any:
    """A fitted calibrator, or a model with its calibration, as an ONNX model.

    skl2onnx converts pipelines that contain calibrators or a
    :class:`~calspline.CalibratedClassifierCV`, too: importing this function registers
    converters for ``skl2onnx.to_onnx(pipeline, X)``.

    Parameters
    ----------
    calibrator : fitted calibrator, or fitted CalibratedClassifierCV
        A :class:`~calspline.CalibratedClassifierCV` is exported as a whole, from
        ``features`` to probabilities. Its estimator is converted by skl2onnx, which has
        to be installed. Where onnxruntime is, the result is compared with
        ``predict_proba`` on random features, and a conversion that is wrong is an
        error.
    dtype : {"float64", "float32"}, default="float64"
        Type of the numbers in, out and within. With float32 results agree with Python's
        to 1e-5.
    after : onnx.ModelProto, optional
        A classifier. The result is one model from its features to calibrated
        probabilities; where its scores are of another type, they are cast. Its labels
        are left out, as calibration may change them. Its scores have to be those of the
        calibrator's fit. Columns in another order of classes are put in order; other
        classes, and margins where the fit was on probabilities or the other way round,
        are an error. A model of an opset below 13, as skl2onnx makes them without
        ``target_opset``, is converted to opset 17. Where the graph does not tell
        margins from probabilities, rows that cannot be what the fit was on give NaN.
    output : str, optional
        The output of ``after`` that has the scores, if several could be meant.

    Returns
    -------
    onnx.ModelProto
        From ``scores`` of shape (N, n_classes), or (N, 1) for margins of two classes,
        to ``probabilities`` of shape (N, n_classes). A row that holds no scores gives
        NaN: a margin that is not finite, probabilities that do not sum to one (within
        0.005) or lie outside [0, 1] (but for rounding), as ``calibrate`` would refuse.
        After a fit with segments there is a second input, ``by``, of shape (N,): texts
        or, for segments that are numbers, int64. What is no segment of the fit is a new
        one. Several columns of segments are ``by_0``, ``by_1`` and so on, in the order
        of the fit.

    Examples
    --------
    >>> import onnxruntime
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_onnx
    >>> cal = SplineCalibrator().fit([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> model = to_onnx(cal)
    >>> session = onnxruntime.InferenceSession(model.SerializeToString())
    >>> scores = np.array([[0.2, 0.8], [0.5, 0.5]])
    >>> [p] = session.run(None, {"scores": scores})
    >>> bool(np.allclose(p, cal.predict_proba(scores), rtol=0, atol=1e-12))
    True
    """
    check_one_of(dtype, "dtype", ("float64", "float32"))
    if is_classifier(calibrator):
        if after is not None:
            raise ValueError(
                "after is for a calibrator; a CalibratedClassifierCV has its model "
                "already"
            )
        models = []
        for pair, model in converted(calibrator, dtype):
            models.append(_behind(pair.calibrators[0], model, dtype))
            check_agreement(models[-1], pair, dtype)
        return averaged_models(models)
    if after is not None:
        if not isinstance(after, onnx.ModelProto):
            raise TypeError(
                f"after must be an onnx.ModelProto; got {type(after).__name__}"
            )
        return _behind(calibrator, after, dtype, output)
    if output is not None:
        raise ValueError("output names an output of after, which must be given then")
    formula = formula_of(calibrator)
    m = len(formula.classes)
    columns = 1 if m == 2 and formula.kind == "margin" else m
    graph = _Graph(dtype, "", m)
    scores = helper.make_tensor_value_info("scores", graph.element, ["N", columns])
    model = helper.make_model(
        helper.make_graph([], "calibrator", [scores], []),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="calspline",
        producer_version=__version__,
    )
    graph.look_up(formula.lookups, model)
    return graph.added_to(
        model, graph.calibrated(formula, "scores", columns, kind=formula.kind)
    )


def _behind(
    calibrator: Any, after: Any, dtype: Dtype, output: str | None = None
) -> Any:
    """A calibrator chained behind a classifier's model."""
    formula = formula_of(calibrator)
    m = len(formula.classes)
    graph = _Graph(dtype, "calspline_", m)
    model = type(after)()
    model.CopyFrom(after)
    graph.look_up(formula.lookups, model)
    given = scores_of(model, m, output)
    model = with_usual_opset(model, given.tensor)
    proper = formula.kind == "probability" or _fitted_on_probabilities(calibrator)
    given.check(formula, proper)
    scores = graph.cast(given.tensor)
    if (order := given.order(formula.classes)) is not None:
        scores = graph.node("Gather", scores, graph.constant(order, np.int64), axis=1)
    kind: Kind | None = "probability" if proper else given.kind
    return graph.added_to(
        model, graph.calibrated(formula, scores, given.columns, kind=kind)
    )


def _fitted_on_probabilities(calibrator: Any) -> bool:
    """Whether a spline of the score itself, which takes any number, was fitted on numbers in [0, 1] only."""
    if getattr(calibrator, "scale", None) != "identity" or len(calibrator.curves_) != 1:
        return False
    curve = calibrator.curves_[0]
    low, high = curve.origin + curve.unit * curve.breaks[[0, -1]]
    return bool(0.0 <= low <= high <= 1.0)


def _unused(name: str, model: Any) -> str:
    """A name like this that nothing in the model has, but an output that goes away."""
    taken = {item.name for item in [*model.graph.input, *model.graph.initializer]}
    taken |= {output for node in model.graph.node for output in node.output}
    while name in taken:
        name = "calibrated_" + name
    return name


class _Graph:
    """Nodes and constants of a calibrator."""

    def __init__(self, dtype: Dtype, prefix: str, m: int) -> None:
        self._m = m
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.element = TensorProto.DOUBLE if dtype == "float64" else TensorProto.FLOAT
        self._dtype: Any = np.float64 if dtype == "float64" else np.float32
        self._prefix = prefix
        self._known: dict[tuple[str, bytes], str] = {}
        self._effects: dict[str, tuple[str, bool]] = {}

    def added_to(self, model: Any, result: str) -> Any:
        """The model with these nodes, and their result as the only output."""
        output = _unused("probabilities", model)
        self.node("Identity", result, output=output)
        model.graph.node.extend(self.nodes)
        model.graph.initializer.extend(self.constants)
        del model.graph.output[:]
        model.graph.output.append(
            helper.make_tensor_value_info(output, self.element, ["N", self._m])
        )
        onnx.checker.check_model(model)
        return model

    def look_up(self, lookups: Sequence[Lookup], model: Any) -> None:
        """Give the model an input for each column of segments, and the names of their effects a tensor."""
        if lookups:
            [opset] = [each for each in model.opset_import if each.domain == ML] or [
                model.opset_import.add(domain=ML)
            ]
            opset.version = max(opset.version, LABEL_ENCODER_SINCE)
        for c, lookup in enumerate(lookups):
            texts = isinstance(lookup.labels[0], str)
            keys = (
                lookup.labels
                if texts
                else [
                    int(label) for label in lookup.labels if not isinstance(label, str)
                ]
            )
            if (
                any(isinstance(label, str) != texts for label in lookup.labels)
                or keys != lookup.labels
            ):
                raise ValueError(
                    "segments must all be texts or all be integers for ONNX"
                )
            if not texts and (large := [key for key in keys if abs(key) >= 2**63]):
                raise ValueError(
                    f"segments must be integers that ONNX has; {large[0]} is too large"
                )
            given = _unused("by" if len(lookups) == 1 else f"by_{c}", model)
            kind = TensorProto.STRING if texts else TensorProto.INT64
            model.graph.input.append(helper.make_tensor_value_info(given, kind, ["N"]))
            encoder: dict[str, Any] = {
                "keys_strings" if texts else "keys_int64s": keys,
                "default_int64": len(keys),
            }
            place = self.node(
                "LabelEncoder",
                given,
                domain=ML,
                values_int64s=list(range(len(keys))),
                **encoder,
            )
            for name, values in lookup.numbers.items():
                rows = self.constant(values.reshape(len(keys) + 1, -1))
                self._effects[name] = (
                    self.node("Gather", rows, place, axis=0),
                    values.ndim == 2,
                )

    def node(
        self, operation: str, *inputs: str, output: str | None = None, **attributes: Any
    ) -> str:
        """The output of one more node."""
        output = output or f"{self._prefix}{operation.lower()}_{len(self.nodes)}"
        # Runtimes that fuse nodes need names to tell them apart.
        self.nodes.append(
            helper.make_node(
                operation, list(inputs), [output], name=output, **attributes
            )
        )
        return output

    def cast(self, tensor: str) -> str:
        """The tensor as numbers of this graph's type."""
        return self.node("Cast", tensor, to=self.element)

    def constant(self, values: Any, dtype: Any = None) -> str:
        """A constant tensor; equal ones are the same."""
        with np.errstate(over="ignore"):
            array: NDArray[Any] = np.asarray(values, dtype=dtype or self._dtype)
        if np.isinf(array).any():
            raise ValueError(
                'dtype must be "float64" for this calibrator: its scores are beyond '
                "float32"
            )
        key = f"{array.dtype}{array.shape}", array.tobytes()
        if key not in self._known:
            self._known[key] = f"{self._prefix}constant_{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(array, self._known[key]))
        return self._known[key]

    def calibrated(
        self, formula: Formula, scores: str, columns: int, *, kind: Kind | None
    ) -> str:
        """Calibrated probabilities of all classes from columns of scores of a ``kind``, if it is known."""
        doubt = self._doubt(formula, scores, columns, kind=kind)
        if formula.kind == "probability":
            scores = self.node(
                "Min", self.node("Max", scores, self.constant(0.0)), self.constant(1.0)
            )
        program, known = formula.program, {"p": scores}
        if self._m == columns == 2:
            assert formula.from_pair is not None
            program, known = (
                formula.from_pair,
                {"p": self._column(scores, 1), "rest": self._column(scores, 0)},
            )
            if formula.kind == "margin" and formula.difference:
                known["p"] = self.node("Sub", known["p"], known["rest"])
        result = self._value(program, known)
        if self._m == 2:
            result = self.node(
                "Concat", self.node("Sub", self.constant(1.0), result), result, axis=1
            )
        return self.node("Add", result, doubt)

    def _doubt(
        self, formula: Formula, scores: str, columns: int, *, kind: Kind | None
    ) -> str:
        """Zero for rows of scores, NaN for others."""
        distance = self.node("Abs", self.node("Sub", scores, self.constant(0.5)))
        if formula.kind == "probability":
            good = self.node("LessOrEqual", distance, self.constant(0.5 + ROUNDING))
        else:
            good = self.node(
                "LessOrEqual", self.node("Abs", scores), self._limit(LARGEST_MARGIN)
            )
        doubt = self._sum(self._zero_or_nan(good), columns)
        one_margin = self._m == 2 and not formula.difference
        if columns == 1 or (kind == "margin" and not one_margin):
            return doubt
        total = self._sum(scores, columns)
        excess = self.node("Abs", self.node("Sub", total, self.constant(1.0)))
        if kind == "probability":
            good = self.node("LessOrEqual", excess, self.constant(ROW_SUM_TOLERANCE))
        elif one_margin:
            # Of one margin, a model may give the opposite as well.
            size = self._sum(self.node("Abs", scores), columns)
            limit = self.node(
                "Mul",
                self.node("Add", size, self.constant(1.0)),
                self.constant(OPPOSITE),
            )
            good = self.node("LessOrEqual", self.node("Abs", total), limit)
        else:
            # What looks like probabilities is, where nobody says that they are margins.
            inside = self._sum(
                self.cast(self.node("LessOrEqual", distance, self.constant(0.5))),
                columns,
            )
            some_outside = self.node("Less", inside, self.constant(columns - 0.5))
            good = self.node(
                "Or",
                some_outside,
                self.node("Greater", excess, self.constant(SUM_ROUNDING)),
            )
        return self.node("Add", doubt, self._zero_or_nan(good))

    def _zero_or_nan(self, good: str) -> str:
        return self.node("Where", good, self.constant(0.0), self.constant(np.nan))

    def _sum(self, tensor: str, n: int) -> str:
        """Sums of ``n`` columns; in onnxruntime, ReduceSum of no rows goes wrong."""
        return self.node("MatMul", tensor, self.constant(np.ones((n, 1))))

    def _limit(self, value: float) -> str:
        """A limit on numbers of this graph's type, which may be the largest there is."""
        largest = float(np.finfo(self._dtype).max)
        return self.constant(min(max(value, -largest), largest))

    def _column(self, tensor: str, j: int) -> str:
        return self.node("Gather", tensor, self.constant([j], np.int64), axis=1)

    def _value(
        self, program: Program, known: dict[str, str], j: int | None = None
    ) -> str:
        """The result of a program; with ``j``, that of a class, to which belong its own of several effects."""
        for name, (tensor, several) in self._effects.items():
            if name in program.names:
                known[name] = (
                    self._column(tensor, j) if several and j is not None else tensor
                )
        for name, value in program.steps:
            known[name] = self._write(value, known)
        result = self._write(program.result, known)
        # What is the same for all rows still has to have them.
        zeros = (
            None
            if program.arguments
            else self.node("Mul", known["p"], self.constant(0.0))
        )
        return result if zeros is None else self.node("Add", zeros, result)

    def _row(self, formula: Expression, rows: list[str]) -> str:
        """The tensor of an operation on rows."""
        y, operation = rows[0], formula.operation
        if operation == "softmax":
            # It leaves no more than rounding to do, but may make a probability exactly
            # zero.
            least = (
                np.exp(-SAFE_EXPONENT)
                if self._dtype is np.float64
                else np.finfo(np.float32).tiny
            )
            return self.node(
                "Max", self.node("Softmax", y, axis=1), self.constant(least)
            )
        if operation == "log_softmax":
            return self.node("LogSoftmax", y, axis=1)
        if operation == "centred":
            top = self.node(
                "GatherElements", y, self.node("ArgMax", y, axis=1, keepdims=1), axis=1
            )
            return self.node("Sub", y, top)
        if operation == "normalise":
            return self.node("Div", y, self._sum(y, self._m))
        if operation == "rest":
            is_top, others = self._top_and_others(y)
            return self.node(
                "Where",
                is_top,
                self._sum(others, self._m),
                self.node("Sub", self.constant(1.0), y),
            )
        if operation == "matrix":
            return self.node(
                "MatMul", y, self.constant(np.transpose(formula.value.values))
            )
        values = []
        for j, program in enumerate(formula.value):
            columns = [
                self._column(row, j)
                for row in (rows if "rest" in program.arguments else rows[:1])
            ]
            values.append(
                self._value(program, dict(zip(("p", "rest"), columns, strict=False)), j)
            )
        return self.node("Concat", *values, axis=1)

    def _top_and_others(self, p: str) -> tuple[str, str]:
        """Which number of a row is the (first) largest, and the row with zero in its place."""
        top = self.node("ArgMax", p, axis=1, keepdims=1)
        is_top = self.node(
            "Equal", top, self.constant([list(range(self._m))], np.int64)
        )
        others = self.node("Where", is_top, self.constant(0.0), p)
        return is_top, others

    def _write(self, formula: Expression, known: dict[str, str]) -> str:
        """The tensor of a formula."""
        if formula.operation == "number":
            return self.constant(formula.value)
        if formula.operation == "name":
            return known[formula.value]
        if formula.operation == "log" and formula.arguments[0].operation == "max":
            # The logarithm is kept above a limit, not its argument: 1e-300 is zero in
            # float32.
            argument, least = formula.arguments[0].arguments
            log = self.node("Log", self._write(argument, known))
            return self.node("Max", log, self.constant(np.log(least.value)))
        if (
            formula.operation in ("max", "min")
            and formula.arguments[1].operation == "number"
        ):
            value, limit = formula.arguments
            return self.node(
                NAMES[formula.operation],
                self._write(value, known),
                self._limit(limit.value),
            )
        if formula.operation == "constant":
            return self.constant([formula.value.values])
        tensors = [self._write(argument, known) for argument in formula.arguments]
        if formula.on_rows:
            return self._row(formula, tensors)
        if formula.operation == "cubic":
            return self._cubic(tensors[0], formula.value)
        if formula.operation == "asinh":
            return self._asinh(tensors[0])
        if formula.operation == "between":
            low, high = map(self.constant, formula.value)
            inside = self.node(
                "And",
                self.node("LessOrEqual", low, tensors[0]),
                self.node("LessOrEqual", tensors[0], high),
            )
            return self.node("Where", inside, tensors[1], tensors[2])
        return self.node(NAMES[formula.operation], *tensors)

    def _asinh(self, x: str) -> str:
        """``sign(x) log(|x| + sqrt(x^2 + 1))``, as runtimes have Asinh in float32 only."""
        size = self.node("Abs", x)
        root = self.node(
            "Sqrt", self.node("Add", self.node("Mul", x, x), self.constant(1.0))
        )
        return self.node(
            "Mul", self.node("Sign", x), self.node("Log", self.node("Add", size, root))
        )

    def _cubic(self, x: str, pieces: Pieces) -> str:
        """The piece that ``x`` lies in, then its start and coefficients by index."""
        breaks, stretch, high, low, columns = pieces.tables(self._dtype)
        i = self._piece(x, breaks)
        if stretch is not None:
            x = self.node("Mul", x, self.node("Gather", self.constant(stretch), i))
        t = self.node("Sub", x, self.node("Gather", self.constant(high), i))
        if low.any():
            t = self.node("Sub", t, self.node("Gather", self.constant(low), i))
        if pieces.unit != 1.0:
            t = self.node("Div", t, self.constant(pieces.unit))
        value = self.node("Gather", self.constant(columns[0]), i)
        for column in columns[1:]:
            value = self.node(
                "Add",
                self.node("Mul", value, t),
                self.node("Gather", self.constant(column), i),
            )
        return value

    def _piece(self, x: str, breaks: NDArray[Any]) -> str:
        """How many breaks are at or below ``x``."""
        last = self.constant([-1], np.int64)
        above = self.node(
            "GreaterOrEqual", self.node("Unsqueeze", x, last), self.constant(breaks)
        )
        count = self._sum(self.cast(above), len(breaks))
        return self.node(
            "Cast", self.node("Squeeze", count, last), to=TensorProto.INT64
        )


def _register_converters() -> None:
    """Let skl2onnx convert calibrators, if it is installed."""
    if find_spec("skl2onnx") is not None:
        from calspline.export.converters import register_converters

        register_converters(to_onnx)


_register_converters()
