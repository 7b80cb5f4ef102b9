"""Models that compute the scores of a calibrator within an ONNX model.

A fitted scikit-learn model is converted with skl2onnx, and its classes and the kind of
its scores are known. An ONNX model is used as it is: the output with the scores must be
unambiguous, or named by the user.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from calspline._crossfit import ResponseMethod
from calspline.export.onnx_graph import Dtype
from calspline.maps.model import Model

OPSET = 17
IR_VERSION = 8
MIN_OPSET = 13
"""Earliest opset whose operators have their present form."""
CONVERT_ADVICE = f"skl2onnx.to_onnx(model, X, target_opset={OPSET})"
MODEL_ADVICE = "give the fitted scikit-learn model itself as after"
N_PROBES = 100
AGREEMENT = 1e-3
ONLY_ERRORS = 3


@dataclass(frozen=True)
class ScoreTensor:
    """Tensor with the scores of a calibrator, and the model that computes it.

    ``n_columns`` is the number of its columns. ``order`` selects columns; None keeps
    them as they are.
    """

    model: ModelProto
    name: str
    n_columns: int
    order: Sequence[int] | None = None


def read_model(after: Any) -> ModelProto:
    """Copy of an ONNX model, or the model in a file, if nodes can be added to it."""
    model = ModelProto()
    if isinstance(after, ModelProto):
        model.CopyFrom(after)
    elif isinstance(after, (str, os.PathLike)):
        model = onnx.load(after)
    else:
        raise TypeError(
            "after must be a fitted scikit-learn classifier, an onnx.ModelProto or the "
            f"path of one; got {type(after).__name__}"
        )
    newest = onnx.defs.onnx_opset_version()
    versions = [item.version for item in model.opset_import if not item.domain]
    if not versions or not MIN_OPSET <= versions[0] <= newest:
        got = versions[0] if versions else None
        raise ValueError(
            f"after must have an opset from {MIN_OPSET} to {newest}, the newest of the "
            f"installed onnx; got {got}. Convert the model with another opset, as in "
            f"{CONVERT_ADVICE}, or {MODEL_ADVICE}"
        )
    return model


def scores_of_graph(after: Any, calibrator: Model, output: str | None) -> ScoreTensor:
    """Scores of an ONNX model, with columns in the calibrator's order."""
    model = read_model(after)
    m = calibrator.n_classes
    name, n_columns = _find_output(model, m, output)
    one_margin = m == 2 and calibrator.kind.name == "margin"
    if one_margin and n_columns == 2 and not calibrator.kind.lies_in_unit_interval:
        raise ValueError(
            f"after gives two columns, {name}, and the calibrator was fitted on one "
            "column of margins of the second class; name an output of shape (N, 1), or "
            f"{MODEL_ADVICE}"
        )
    classes = calibrator.classes.tolist()
    if n_columns > 1 and classes != sorted(classes):
        warnings.warn(
            "an ONNX model does not name the classes of its columns; they are taken in "
            f"the calibrator's order, {classes}. To have them put in order, "
            f"{MODEL_ADVICE}",
            stacklevel=3,
        )
    return ScoreTensor(model, name, n_columns)


def _find_output(model: ModelProto, m: int, output: str | None) -> tuple[str, int]:
    """Find the output that has scores of ``n_classes`` classes, and its width."""
    candidates = {}
    for info in model.graph.output:
        n_columns = _columns_of(info, m)
        if n_columns is not None and output in (None, info.name):
            candidates[info.name] = n_columns
    if len(candidates) == 1:
        return candidates.popitem()
    names = ", ".join(info.name for info in model.graph.output)
    shapes = f"(N, {m})" if m > 2 else "(N, 2) or (N, 1)"
    message = (
        f"after must have one output of numbers with scores, of shape {shapes}, or "
        f"output must name it; its outputs are {names}"
    )
    if any(info.type.HasField("sequence_type") for info in model.graph.output):
        message += (
            ". Scores must be arrays, not dictionaries: convert the model with "
            f'options={{"zipmap": False}}, or {MODEL_ADVICE}'
        )
    raise ValueError(message)


def _columns_of(info: Any, m: int) -> int | None:
    """Number of columns of an output; None if it cannot hold scores.

    An output of unknown shape is assumed to have a column for each class.
    """
    tensor = info.type.tensor_type
    if tensor.elem_type not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return None
    if not tensor.HasField("shape"):
        return m
    if len(tensor.shape.dim) != 2:
        return None
    n_columns = int(tensor.shape.dim[1].dim_value) or m
    is_margin = m == 2 and n_columns == 1
    return n_columns if n_columns == m or is_margin else None


def is_classifier(model: Any) -> bool:
    """Whether it looks like a scikit-learn classifier."""
    return hasattr(model, "predict_proba") or hasattr(model, "decision_function")


def method_for(model: Any, calibrator: Model) -> ResponseMethod:
    """Method of a classifier that computes the scores of the calibrator's fit."""
    name = type(model).__name__
    if calibrator.kind.lies_in_unit_interval:
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                f"after, a {name}, has no predict_proba, and the calibrator was fitted "
                "on probabilities; fit it on the decision_function"
            )
        return "predict_proba"
    if not hasattr(model, "decision_function"):
        raise ValueError(
            f"after, a {name}, has no decision_function, and the calibrator was fitted "
            "on margins; fit it on the predict_proba"
        )
    return "decision_function"


def scores_of_classifier(
    model: Any,
    method: ResponseMethod,
    classes: NDArray[Any],
    dtype: Dtype,
) -> ScoreTensor:
    """Scores of a scikit-learn classifier, in the order of the classes."""
    name = type(model).__name__
    if not hasattr(model, "n_features_in_"):
        raise TypeError(
            f"to_onnx converts classifiers of columns of numbers; got {name}. Convert "
            "the model yourself, and give the result as after (with "
            "calibrated_classifiers_[0].calibrators[0] of a CalibratedClassifierCV)"
        )
    converted = _convert(model, method, dtype)
    _check_conversion(model, method, converted, dtype)
    scores = converted.graph.output[0].name
    known = np.asarray(model.classes_).tolist()
    labels = classes.tolist()
    if sorted(known) != sorted(labels):
        raise ValueError(
            f"after must have the classes of the calibrator, {labels}; it has {known}"
        )
    if method == "decision_function" and len(labels) == 2:
        if known != labels:
            raise ValueError(
                f"after gives the score of {known[1]!r}, and the calibrator was fitted "
                f"on that of {labels[1]!r}"
            )
        # The margin of the second class comes alone, or after its opposite.
        return ScoreTensor(converted, scores, 1, order=[-1])
    order = [known.index(label) for label in labels]
    return ScoreTensor(converted, scores, len(labels), order)


def _convert(model: Any, method: ResponseMethod, dtype: Dtype) -> ModelProto:
    """Convert a classifier to a model whose output is the scores."""
    try:
        import skl2onnx
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_onnx converts classifiers with skl2onnx: pip install skl2onnx"
        ) from error
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    tensor = DoubleTensorType if dtype == "float64" else FloatTensorType
    features = [("features", tensor([None, model.n_features_in_]))]
    last = model
    while hasattr(last, "steps"):
        last = last[-1]
    options: dict[str, Any] = {}
    if method == "decision_function":
        options["raw_scores"] = True

    def convert(**more: Any) -> ModelProto:
        return skl2onnx.to_onnx(
            model,
            initial_types=features,
            options={id(last): options | more},
            target_opset=OPSET,
        )

    with warnings.catch_warnings():
        # # Raised by scikit-learn, about attributes that skl2onnx reads.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            converted = convert(zipmap=False)
        except NameError:  # no such option: margins never become dictionaries
            converted = convert()
    # Labels are left out. The type of the scores is not always the declared one.
    scores = onnx.helper.make_empty_tensor_value_info(converted.graph.output[1].name)
    del converted.graph.output[:]
    converted.graph.output.append(scores)
    return converted


def _check_conversion(
    model: Any, method: ResponseMethod, converted: ModelProto, dtype: Dtype
) -> None:
    """Check the conversion by skl2onnx with onnxruntime, if it is installed."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_PROBES, model.n_features_in_)).astype(np.float32)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = np.asarray(getattr(model, method)(X.astype(np.float64)))
    except ValueError:
        return  # not a model of any numbers: nothing to compare with
    name = type(model).__name__
    advice = "try another dtype, or convert the model yourself and give it as after"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ONLY_ERRORS
    try:
        session = onnxruntime.InferenceSession(
            converted.SerializeToString(), options, ["CPUExecutionProvider"]
        )
        [found] = session.run(None, {"features": X.astype(dtype)})
    except Exception as error:  # onnxruntime has many of its own
        raise ValueError(
            f"onnxruntime cannot run the converted {name}: {error}; {advice}"
        ) from error
    if expected.ndim == 1:
        found = found[:, -1]
    largest_error = np.abs(found - expected).max()
    if not largest_error < AGREEMENT * max(1.0, np.abs(expected).max()):
        raise ValueError(
            f"skl2onnx converts {name} wrongly: its {method} is off by up to "
            f"{largest_error:.2g}; {advice}"
        )
