"""Calibrators as ONNX models."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np

try:
    from onnx import ModelProto, checker, compose, helper, numpy_helper
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "to_onnx needs onnx: pip install 'calspline[onnx]'"
    ) from error

from calspline._input.options import check_one_of
from calspline._version import __version__
from calspline.export.formulas import check_exportable
from calspline.export.onnx_graph import (
    Dtype,
    OnnxGraph,
    add_probabilities,
    add_segments,
    refuse_probabilities,
)
from calspline.export.onnx_scores import (
    IR_VERSION,
    OPSET,
    ScoreTensor,
    is_classifier,
    method_for,
    scores_of_classifier,
    scores_of_graph,
)
from calspline.maps.model import Model


def to_onnx(
    calibrator: Any,
    *,
    dtype: Dtype = "float64",
    after: Any = None,
    output: str | None = None,
) -> Any:
    """Export a calibrator, or a model with its calibrator, to ONNX.

    Importing this function also registers converters with skl2onnx, so
    ``skl2onnx.to_onnx(pipeline, X, target_opset=17)`` converts pipelines that contain
    calibrators or a :class:`~calspline.CalibratedClassifierCV`.

    Parameters
    ----------
    calibrator : fitted calibrator, or fitted CalibratedClassifierCV
        Calibrator to export. A :class:`~calspline.CalibratedClassifierCV` is exported
        as a whole, from ``features`` to probabilities; its classifiers are converted in
        the same way as ``after``.
    dtype : {"float64", "float32"}, default="float64"
        Type of inputs, outputs and computations. For float32, results agree with Python
        to 1e-5.
    after : fitted classifier, onnx.ModelProto or path, optional
        Model that computes the scores. The result is a single model from its features
        to calibrated probabilities. Its output of labels is omitted, since calibration
        may change them.

        A scikit-learn classifier with numeric features is converted by skl2onnx, which
        must be installed. Its columns are put in the order of the calibrator's classes.
        ``decision_function`` is used if the calibrator was fitted on margins, otherwise
        ``predict_proba``. If onnxruntime is installed, the conversion is checked on
        random features.

        An ONNX model must have opset 13 or later; with skl2onnx, use
        ``target_opset=17`` and ``options={"zipmap": False}``. Its scores must be of the
        same kind as in the calibrator's fit, with columns in the order of the classes;
        other numeric types are cast. Rows of another kind give NaN.
    output : str, optional
        Name of the output with the scores, if an ONNX model has several candidates.

    Returns
    -------
    model : onnx.ModelProto
        Model from ``scores`` of shape (N, n_classes), or (N, 1) for margins of two
        classes, to ``probabilities`` of shape (N, n_classes). Invalid rows give NaN:
        margins that are not finite, and probabilities that do not sum to one (within
        0.005) or lie outside [0, 1]. After a fit with ``by`` there is a second input,
        ``by``, of shape (N,), with strings or, for numeric segments, int64; unseen
        labels are new segments. Several columns of segments are inputs ``by_0``,
        ``by_1`` and so on, in the order of the fit.

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
    if _is_wrapper(calibrator):
        if after is not None:
            raise ValueError(
                "after is for a calibrator; a CalibratedClassifierCV has its model "
                "already"
            )
        return _export_wrapper(calibrator, dtype)
    model = check_exportable(calibrator)
    if output is not None and (after is None or is_classifier(after)):
        raise ValueError("output names an output of an ONNX model, given as after")
    if after is None:
        return _export_alone(model, dtype)
    if is_classifier(after):
        method = method_for(after, model)
        scores = scores_of_classifier(after, method, model.classes, dtype)
    else:
        scores = scores_of_graph(after, model, output)
    return _export_after(scores, model, dtype)


def _export_alone(model: Model, dtype: Dtype) -> ModelProto:
    """Export a calibrator on its own."""
    formula = model.formula()
    m = model.n_classes
    n_columns = 1 if m == 2 and formula.kind == "margin" else m
    empty = helper.make_model(
        helper.make_graph([], "calibrator", [], []),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="calspline",
        producer_version=__version__,
    )
    graph = OnnxGraph(empty, dtype)
    scores = graph.input("scores", graph.element, ["N", n_columns])
    effects = add_segments(graph, formula.lookups)
    p = add_probabilities(graph, formula, effects, scores, n_columns)
    graph.output(p, "probabilities", m)
    return graph.model


def _export_after(scores: ScoreTensor, model: Model, dtype: Dtype) -> ModelProto:
    """Export a calibrator that follows the model that computes its scores."""
    formula = model.formula()
    graph = OnnxGraph(scores.model, dtype)
    effects = add_segments(graph, formula.lookups)
    tensor = graph.cast(scores.name)
    n_columns = scores.n_columns
    if scores.order is not None:
        tensor = graph.columns(tensor, scores.order)
    if n_columns > 1 and not model.kind.lies_in_unit_interval:
        tensor = refuse_probabilities(graph, tensor, n_columns)
    p = add_probabilities(graph, formula, effects, tensor, n_columns)
    graph.output(p, "probabilities", model.n_classes)
    return graph.model


def _is_wrapper(model: Any) -> bool:
    """Whether it is a fitted CalibratedClassifierCV, without importing the class."""
    home = sys.modules.get("calspline.classifier")
    if home is None or not isinstance(model, home.CalibratedClassifierCV):
        return False
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    return True


def _export_wrapper(wrapper: Any, dtype: Dtype) -> ModelProto:
    """Export the mean of the pairs of classifiers and calibrators."""
    from sklearn.frozen import FrozenEstimator

    models = []
    for pair in wrapper.calibrated_classifiers_:
        if len(pair.known) < len(pair.classes):
            missing = np.delete(pair.classes, pair.known)
            raise ValueError(
                f"calibrator has a model that knows nothing of class {missing[0]!r}, "
                "which has no export"
            )
        classifier = pair.estimator
        if isinstance(classifier, FrozenEstimator):
            classifier = classifier.estimator
        method = next(name for name in pair.methods if hasattr(classifier, name))
        scores = scores_of_classifier(classifier, method, pair.classes, dtype)
        calibrator = check_exportable(pair.calibrators[0])
        models.append(_export_after(scores, calibrator, dtype))
    return average_models(models)


def average_models(models: list[ModelProto]) -> ModelProto:
    """Combine models into one that returns the mean of their outputs."""
    whole = models[0]
    if len(models) == 1:
        return whole
    results = [whole.graph.output[0].name]
    for k, model in enumerate(models[1:], start=1):
        part = compose.add_prefix(model, f"model_{k}_", rename_inputs=False)
        whole.graph.node.extend(part.graph.node)
        whole.graph.initializer.extend(part.graph.initializer)
        domains = {opset.domain for opset in whole.opset_import}
        for opset in part.opset_import:
            if opset.domain not in domains:
                whole.opset_import.append(opset)
        results.append(part.graph.output[0].name)
    result = whole.graph.output[0]
    element = helper.tensor_dtype_to_np_dtype(result.type.tensor_type.elem_type)
    count = numpy_helper.from_array(np.array(len(models), element), "number_of_models")
    whole.graph.initializer.append(count)
    sum_node = helper.make_node("Sum", results, ["sum_of_models"])
    mean_node = helper.make_node("Div", ["sum_of_models", count.name], ["mean"])
    whole.graph.node.extend([sum_node, mean_node])
    result.name = "mean"
    checker.check_model(whole)
    return whole


def _register_converters() -> None:
    """Register the converters with skl2onnx, if it is installed."""
    if find_spec("skl2onnx") is not None:
        from calspline.export.converters import register_converters

        register_converters(to_onnx)


_register_converters()
