"""What a classifier's ONNX model gives: the tensor of its scores, and what its graph tells of them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from onnx import (
    ModelProto,
    TensorProto,
    checker,
    compose,
    defs,
    helper,
    numpy_helper,
    shape_inference,
    version_converter,
)

from calspline._expression import Formula
from calspline._input.labels import by_value
from calspline._input.scores import Kind

OPSET, IR_VERSION = 17, 8
MIN_OPSET = 13
"""Since then the operators that a calibrator is made of are what they are."""
CLASSIFIERS = "LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"
LABELS = "classlabels_strings", "classlabels_int64s", "classlabels_ints"
PASSING = "Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "ZipMap"
"""Nodes that leave values as they are."""
CHOOSING = "ArrayFeatureExtractor", "Gather"
N_PROBES, AGREEMENT, ONLY_ERRORS = 100, 1e-3, 3


@dataclass(frozen=True)
class ClassifierScores:
    """A tensor of scores with so many columns.

    ``kind`` says what they are and ``labels`` which class each column is, if the graph
    tells; else they are None. ``reversed`` says that the first of two columns is the
    margin of the second class.
    """

    tensor: str
    columns: int
    kind: Kind | None
    labels: list[Any] | None
    reversed: bool = False

    def check(self, formula: Formula, proper: bool) -> None:
        """Complain if a calibrator, which takes probabilities if ``proper``, was not fitted on such scores."""
        if self.kind == "probability" and not proper:
            raise ValueError(
                "after gives probabilities, and the calibrator was fitted on margins; "
                "convert the model with "
                "raw_scores=True, or fit the calibrator on its predict_proba"
            )
        if self.kind == "margin" and formula.kind == "probability":
            raise ValueError(
                "after gives margins, and the calibrator was fitted on probabilities; "
                "convert the model without "
                "raw_scores, or fit the calibrator on its decision_function"
            )
        if self.reversed:
            raise ValueError(
                "after is a support vector machine, whose two margins ONNX has in the "
                "reverse order of its classes; "
                "convert it with raw_scores=True"
            )

    def order(self, classes: list[Any]) -> list[int] | None:
        """The columns in the order of the classes; None if they are so already, or if the graph does not tell."""
        if self.labels is None:
            if self.columns > 1 and classes != sorted(classes):
                warnings.warn(
                    "after does not name its classes: its columns are taken in the "
                    f"calibrator's order, {classes}",
                    stacklevel=4,
                )
            return None
        values = [
            by_value(label) for label in self.labels
        ]  # ONNX has text and integers only
        places = [
            values.index(value) if (value := by_value(label)) in values else -1
            for label in classes
        ]
        as_they_are = list(range(len(classes)))
        if set(places) != set(as_they_are):
            raise ValueError(
                f"after must have the classes of the calibrator, {classes}; it has "
                f"{self.labels}"
            )
        if places == as_they_are:
            return None
        if self.columns == 1:
            raise ValueError(
                f"after gives the score of {self.labels[1]!r}, and the calibrator was "
                f"fitted on that of {classes[1]!r}"
            )
        return places


def scores_of(model: Any, m: int, output: str | None = None) -> ClassifierScores:
    """The scores of ``m`` classes that a classifier gives, perhaps in a known output.

    Nodes that turn scores into dictionaries are removed.
    """
    graph, inferred = _Nodes(model.graph), _columns(model)
    found: list[tuple[str, str, int]] = []
    for each in model.graph.output:
        node = graph.by_output.get(each.name)
        if node is not None and node.op_type == "ZipMap":
            found.append((each.name, node.input[0], m))
        elif each.type.tensor_type.elem_type in (TensorProto.FLOAT, TensorProto.DOUBLE):
            columns = graph.columns(each.name) or inferred[each.name] or m
            found.append((each.name, each.name, columns))
    fitting = [item for item in found if item[2] == m or (m == 2 and item[2] == 1)]
    named = [item for item in fitting if "prob" in item[1].lower()]
    choice = named if len(named) == 1 and len(fitting) > 1 else fitting
    if output is not None:
        choice = [item for item in fitting if item[0] == output]
    if len(choice) != 1:
        names = ", ".join(each.name for each in model.graph.output)
        raise ValueError(
            f"after must have one output of shape (N, {m}) with scores, or output must "
            f"name it; its outputs are {names}"
        )
    source, tensor, columns = choice[0]
    labels = graph.labels(source, [item.name for item in model.graph.output], m)
    kept = [node for node in model.graph.node if node.op_type != "ZipMap"]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return ClassifierScores(
        tensor, columns, graph.kind(tensor), labels, graph.reversed(tensor, columns)
    )


def with_usual_opset(model: Any, tensor: str) -> Any:
    """A model of a ``tensor`` with an opset that a calibrator's nodes can be added to: its own, or ours if it is older.

    skl2onnx gives models the oldest opset that they need, unless it is told a
    ``target_opset``.
    """
    own = [opset for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    version = own[0].version if own else None
    newest = defs.onnx_opset_version()
    if version is not None and MIN_OPSET <= version <= newest:
        return model
    advice = (
        f"Convert the model with another one, "
        f"as in skl2onnx.to_onnx(model, X, target_opset={OPSET})"
    )
    if version is None or version > newest:
        raise ValueError(
            f"after must have an opset that the installed onnx knows, up to {newest}; "
            f"got {version}. {advice}"
        )
    kept = [
        opset for opset in model.opset_import if opset.domain not in ("", "ai.onnx")
    ]
    # Without ZipMap, skl2onnx imports the same opset twice, and onnx would convert one
    # of them.
    del model.opset_import[:]
    model.opset_import.extend([helper.make_opsetid("", version), *kept])
    del model.graph.output[:]
    model.graph.output.append(helper.make_empty_tensor_value_info(tensor))
    try:
        found = version_converter.convert_version(model, OPSET)
    except Exception as error:  # onnx has several of its own
        raise ValueError(
            f"after must have an opset of {MIN_OPSET} or more; got {version}, which "
            f"onnx cannot convert ({error}). "
            f"{advice}"
        ) from error
    known = {opset.domain for opset in found.opset_import}
    found.opset_import.extend(opset for opset in kept if opset.domain not in known)
    found.ir_version = max(found.ir_version, IR_VERSION)
    return found


def _columns(model: Any) -> dict[str, int]:
    """How many columns each output has: -1 if it is no matrix, 0 if unknown.

    What the operators say goes before what is declared, as skl2onnx declares one column
    for both of LinearSVC's.
    """
    bare = ModelProto()
    bare.CopyFrom(model)
    for output in bare.graph.output:
        if output.type.WhichOneof("value") == "tensor_type":
            output.type.tensor_type.ClearField("shape")
    found = {}
    for output, inferred in zip(
        model.graph.output, shape_inference.infer_shapes(bare).graph.output, strict=True
    ):
        shapes = [item.type.tensor_type.shape.dim for item in (inferred, output)]
        known = [shape[-1].dim_value for shape in shapes if len(shape) == 2]
        declared = len(shapes[1])
        found[output.name] = next(
            (count for count in known if count), 0 if known or not declared else -1
        )
    return found


class _Nodes:
    """A graph, read backwards."""

    def __init__(self, graph: Any) -> None:
        self.by_output = {output: node for node in graph.node for output in node.output}
        self._constants = {
            item.name: numpy_helper.to_array(item)
            for item in graph.initializer
            if len(item.dims) <= 2
        }

    def _back(self, tensor: str, through: tuple[str, ...]) -> Iterator[Any]:
        """The nodes that made a tensor, up to the first that did more than pass it on."""
        while (node := self.by_output.get(tensor)) is not None:
            yield node
            if node.op_type not in through:
                return
            tensor = node.input[0]

    def kind(self, tensor: str) -> Kind | None:
        """What scores are: what the last node that changed them makes."""
        for node in self._back(tensor, (*PASSING, *CHOOSING)):
            if node.op_type in ("Softmax", "Sigmoid", "Normalizer"):
                return "probability"
            if node.op_type == "LogSoftmax":
                return "margin"
            if node.op_type in CLASSIFIERS:
                known = _attributes(node)
                if known.get("post_transform", b"NONE") != b"NONE" or known.get(
                    "prob_a"
                ):
                    return "probability"
                # A forest's leaves hold probabilities, those of boosting margins.
                return None if node.op_type == "TreeEnsembleClassifier" else "margin"
        return None

    def columns(self, tensor: str) -> int | None:
        """How many columns a classifier gives."""
        for node in self._back(tensor, ("Identity", "Cast")):
            if node.op_type in CLASSIFIERS:
                return len(_labels(node) or []) or None
        return None

    def reversed(self, tensor: str, columns: int) -> bool:
        """Whether these are the two margins of a support vector machine, which has them in reverse."""
        is_svm = any(
            node.op_type == "SVMClassifier" for node in self._back(tensor, PASSING)
        )
        return is_svm and columns == 2 and self.kind(tensor) == "margin"

    def labels(self, scores: str, outputs: list[str], m: int) -> list[Any] | None:
        """Which class each column is: as keys, or the labels that it predicts, or the node of the scores tell."""
        node = self.by_output.get(scores)
        others = [name for name in outputs if name != scores]
        for tensor in (
            [scores, *others]
            if node is not None and node.op_type == "ZipMap"
            else [*others, scores]
        ):
            for node in self._back(tensor, PASSING):
                found = _labels(node)
                if (
                    found is None
                    and node.op_type in CHOOSING
                    and node.input[0] in self._constants
                    and tensor != scores
                ):
                    found = self._constants[node.input[0]].reshape(-1).tolist()
                if found is not None and len(found) == m:
                    return [
                        label.decode() if isinstance(label, bytes) else label
                        for label in found
                    ]
        return None


def _attributes(node: Any) -> dict[str, Any]:
    return {item.name: helper.get_attribute_value(item) for item in node.attribute}


def _labels(node: Any) -> list[Any] | None:
    """The labels that a node declares."""
    known = _attributes(node)
    return next((list(known[name]) for name in LABELS if known.get(name)), None)


def is_classifier(model: Any) -> bool:
    """Whether it is a fitted :class:`~calspline.CalibratedClassifierCV`; only if that is loaded can it be."""
    home = sys.modules.get("calspline.classifier")
    if home is None or not isinstance(model, home.CalibratedClassifierCV):
        return False
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    return True


def converted(classifier: Any, dtype: str) -> list[tuple[Any, Any]]:
    """Pairs of a :class:`~calspline.CalibratedClassifierCV`, each with the ONNX model of its estimator."""
    try:
        import skl2onnx
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_onnx of a CalibratedClassifierCV needs skl2onnx: pip install skl2onnx"
        ) from error
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import Pipeline

    tensor = DoubleTensorType if dtype == "float64" else FloatTensorType
    found = []
    for pair in classifier.calibrated_classifiers_:
        if len(pair.known) < len(pair.classes):
            missing = [
                label
                for j, label in enumerate(pair.classes.tolist())
                if j not in pair.known
            ]
            raise ValueError(
                f"calibrator has a model that knows nothing of class {missing[0]!r}, "
                "which has no export"
            )
        model = (
            pair.estimator.estimator
            if isinstance(pair.estimator, FrozenEstimator)
            else pair.estimator
        )
        if not hasattr(model, "n_features_in_"):
            raise TypeError(
                "calibrator must have a model of columns of numbers; got "
                f"{type(model).__name__}. Convert the model "
                "yourself, and give the result as after, with "
                "calibrated_classifiers_[0].calibrators[0]."
            )
        last = model
        while isinstance(last, Pipeline):
            last = last[-1]
        margins = (
            next(method for method in pair.methods if hasattr(model, method))
            == "decision_function"
        )
        features = [("features", tensor([None, model.n_features_in_]))]
        options = {id(last): {"raw_scores": True}} if margins else None
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", FutureWarning
            )  # of scikit-learn, about what skl2onnx reads
            after = skl2onnx.to_onnx(
                model, initial_types=features, options=options, target_opset=OPSET
            )
        found.append((pair, after))
    return found


def check_agreement(model: Any, pair: Any, dtype: str) -> None:
    """Complain if a converted model does not do what it was made of, on random features; it takes onnxruntime."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return
    name = type(pair.estimator).__name__
    advice = "try another dtype, or convert the model yourself and give it as after"
    X = (
        np.random.default_rng(0)
        .normal(size=(N_PROBES, pair.estimator.n_features_in_))
        .astype(np.float32)
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ONLY_ERRORS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = replace(pair, by=None).predict_proba(X.astype(np.float64))
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, ["CPUExecutionProvider"]
            )
            new = {
                each.name: _new(each.type, pair.calibrators[0])
                for each in session.get_inputs()[1:]
            }
            [got] = session.run(None, {"features": X.astype(dtype)} | new)
        except Exception as error:  # onnxruntime has many of its own
            raise ValueError(
                f"onnxruntime cannot run the converted {name}: {error}; {advice}"
            ) from error
    if not (off := np.abs(got - expected).max()) < AGREEMENT:
        raise ValueError(
            f"calibrator has a model, {name}, that skl2onnx converts wrongly, by up to "
            f"{off:.2g}; {advice}"
        )


def _new(kind: str, calibrator: Any) -> Any:
    """Labels of segments that no fit has seen."""
    if kind == "tensor(int64)":
        known = {
            label
            for label in calibrator.segments_["segment"]
            if not isinstance(label, str)
        }
        return np.full(N_PROBES, next(label for label in count() if label not in known))
    return np.full(
        N_PROBES, max(map(str, calibrator.segments_["segment"])) + "?", dtype=object
    )


def averaged_models(models: list[Any]) -> Any:
    """One model that gives the mean of what several give for the same features."""
    whole, *others = models
    if not others:
        return whole
    outputs = [whole.graph.output[0].name]
    for k, model in enumerate(others):
        part = compose.add_prefix(model, f"model_{k + 1}_", rename_inputs=False)
        whole.graph.node.extend(part.graph.node)
        whole.graph.initializer.extend(part.graph.initializer)
        known = {opset.domain: opset for opset in whole.opset_import}
        whole.opset_import.extend(
            opset for opset in part.opset_import if opset.domain not in known
        )
        outputs.append(part.graph.output[0].name)
    element = whole.graph.output[0].type.tensor_type.elem_type
    count = np.array(len(models), dtype=helper.tensor_dtype_to_np_dtype(element))
    whole.graph.initializer.append(numpy_helper.from_array(count, "number_of_models"))
    whole.graph.node.append(helper.make_node("Sum", outputs, ["sum_of_models"]))
    whole.graph.node.append(
        helper.make_node(
            "Div", ["sum_of_models", "number_of_models"], ["mean_of_models"]
        )
    )
    whole.graph.output[0].name = "mean_of_models"
    checker.check_model(whole)
    return whole
