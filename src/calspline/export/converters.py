"""Converters for skl2onnx, so that pipelines with calibrators can be exported.

Importing :func:`calspline.export.to_onnx` registers them if skl2onnx is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto, compose, helper, numpy_helper
from skl2onnx import update_registered_converter
from skl2onnx.common.data_types import DoubleTensorType
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

from calspline.calibrators import classes
from calspline.classifier import CalibratedClassifierCV

OPTIONS = {
    "nocl": [True, False],
    "zipmap": [True, False, "columns"],
    "output_class_labels": [True, False],
}


def register_converters(to_onnx: Callable[..., Any]) -> None:
    """Register converters that add the nodes of ``to_onnx``."""
    for each in [*classes().values(), CalibratedClassifierCV]:
        update_registered_converter(
            each,
            f"Calspline{each.__name__}",
            calculate_linear_classifier_output_shapes,
            partial(convert, to_onnx),
            options=OPTIONS,
        )


def convert(
    to_onnx: Callable[..., Any], scope: Any, operator: Any, container: Any
) -> None:
    """Add the nodes of a calibrator, or of a classifier with its calibrator."""
    estimator = operator.raw_operator
    [given] = operator.inputs
    is_double = isinstance(given.type, DoubleTensorType)
    model = to_onnx(estimator, dtype="float64" if is_double else "float32")
    scores, *segments = model.graph.input
    if segments:
        raise ValueError(
            "skl2onnx cannot convert a calibrator with segments (by=), which are a "
            "second input; use calspline.export.to_onnx"
        )
    prefix = scope.get_unique_operator_name("calspline") + "_"
    model = compose.add_prefix(model, prefix)
    for opset in model.opset_import:
        container.node_domain_version_pair_sets.add((opset.domain, opset.version))
    element = scores.type.tensor_type.elem_type
    add_node(container, "Cast", [given.full_name], prefix + scores.name, to=element)
    container.nodes.extend(model.graph.node)
    container.initializers.extend(model.graph.initializer)
    label, probabilities = operator.outputs
    [result] = model.graph.output
    add_node(container, "Identity", [result.name], probabilities.full_name)
    add_labels(container, estimator.classes_, result.name, label.full_name, prefix)


def add_labels(
    container: Any, labels: Any, probabilities: str, label: str, prefix: str
) -> None:
    """Add nodes that select the most probable class."""
    if labels.dtype.kind in "iub":
        known = numpy_helper.from_array(
            labels.astype(np.int64), prefix + "known_classes"
        )
    else:
        texts = [str(each).encode() for each in labels]
        shape = [len(texts)]
        known = helper.make_tensor(
            prefix + "known_classes", TensorProto.STRING, shape, texts
        )
    container.initializers.append(known)
    places = prefix + "class_places"
    add_node(container, "ArgMax", [probabilities], places, axis=1, keepdims=0)
    add_node(container, "Gather", [known.name, places], label, axis=0)


def add_node(
    container: Any, operation: str, inputs: list[str], output: str, **attributes: Any
) -> None:
    """Add a node of a stable operator."""
    name = f"{operation}_{output}"
    node = helper.make_node(operation, inputs, [output], name=name, **attributes)
    container.nodes.append(node)
