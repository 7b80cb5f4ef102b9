import numpy as np
import onnx
import onnxruntime as runtime
import pytest
import skl2onnx
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from calspline import SplineCalibrator
from calspline.export import to_onnx


def run(model, scores, name="scores"):
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert len(session.get_outputs()) == 1
    return session.run(None, {name: scores})[0]


def columns(case, dtype):
    """Scores as the model wants them, in this type: both columns of probabilities, one of margins."""
    with np.errstate(over="ignore"):
        scores = case.scores.astype(dtype)
    scores = scores[np.isfinite(scores).reshape(len(scores), -1).all(axis=1)]
    if scores.ndim == 1 and case.calibrator.kind_ == "probability":
        return np.column_stack([dtype(1.0) - scores, scores])
    return scores.reshape(len(scores), -1)


def test_onnx_agrees_with_python(case):
    scores = columns(case, np.float64)
    got = run(to_onnx(case.calibrator), scores)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, case.calibrator.predict_proba(scores), rtol=0.0, atol=1e-9)


def test_onnx_in_single_precision_agrees_with_python(case):
    if case.name == "large margins":
        with pytest.raises(ValueError, match='dtype must be "float64" for this calibrator'):
            to_onnx(case.calibrator, dtype="float32")
        return
    scores = columns(case, np.float32)
    got = run(to_onnx(case.calibrator, dtype="float32"), scores)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, case.calibrator.predict_proba(scores), rtol=0.0, atol=1e-5)


def test_models_use_standard_operators_only(case):
    model = to_onnx(case.calibrator)
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}


def test_two_columns_keep_what_one_rounds_away(fitted):
    scores = np.array([[1e-40, 1.0], [1e-200, 1.0]])
    got = run(to_onnx(fitted("asinh_logit")), scores)
    np.testing.assert_allclose(got, fitted("asinh_logit").predict_proba(scores), rtol=0.0, atol=1e-9)
    assert got[0, 1] < got[1, 1]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_that_are_no_scores_give_nan(fitted, dtype):
    rows = np.array([[0.5, 0.6], [-0.2, 1.2], [np.nan, 0.5], [0.4, 0.6]], dtype=dtype)
    assert np.isnan(run(to_onnx(fitted("logit"), dtype=dtype), rows)).all(axis=1).tolist() == [True] * 3 + [False]
    margins = np.array([[np.inf], [np.nan], [0.5]], dtype=dtype)
    assert np.isnan(run(to_onnx(fitted("identity"), dtype=dtype), margins)).all(axis=1).tolist() == [True, True, False]


def test_a_probability_that_a_model_rounded_past_one_is_one(fitted):
    model = to_onnx(fitted("logit"), dtype="float32")
    over = np.array([[0.0, np.nextafter(np.float32(1), np.float32(2))], [0.0, 1.0]], dtype=np.float32)
    got = run(model, over)
    assert got[0].tolist() == got[1].tolist()


def test_no_rows_give_no_rows(fitted):
    assert run(to_onnx(fitted("ovr")), np.empty((0, 3))).shape == (0, 3)


def classifier(n_classes):
    X, y = make_classification(2000, n_informative=6, n_classes=n_classes, random_state=0)
    X = X.astype(np.float32)
    return X, y, LogisticRegression(max_iter=500).fit(X, y)


def converted(model, X, **options):
    return skl2onnx.to_onnx(model, X[:1], options=options or None, target_opset=17)


@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize(("n_classes", "multiclass"), [(2, "structured"), (3, "structured"), (3, "ovr")])
def test_one_model_goes_from_features_to_calibrated_probabilities(n_classes, multiclass, zipmap):
    X, y, model = classifier(n_classes)
    calibrator = SplineCalibrator(multiclass=multiclass).fit(model.predict_proba(X), y)
    chain = to_onnx(calibrator, after=converted(model, X, zipmap=zipmap))
    got = run(chain, X, chain.graph.input[0].name)
    # The classifier itself computes in single precision.
    np.testing.assert_allclose(got, calibrator.predict_proba(model.predict_proba(X)), rtol=0.0, atol=1e-5)


def test_a_chain_calibrates_margins_too():
    X, y, _ = classifier(2)
    model = LinearSVC(dual=False).fit(X, y)
    calibrator = SplineCalibrator(transform="identity").fit(model.decision_function(X), y)
    chain = to_onnx(calibrator, after=scoring(model))
    got = run(chain, X, "features")
    np.testing.assert_allclose(got, calibrator.predict_proba(model.decision_function(X)), rtol=0.0, atol=1e-5)


def test_a_chain_takes_the_difference_of_two_margins():
    X, y, _ = classifier(2)
    model = LinearSVC(dual=False).fit(X, y)
    margins = model.decision_function(X)
    calibrator = SplineCalibrator(transform="identity").fit(np.column_stack([-margins, 0.5 * margins]), y)
    got = run(to_onnx(calibrator, after=scoring(model, factors=(-1.0, 0.5))), X, "features")
    np.testing.assert_allclose(got, calibrator.predict_proba(1.5 * margins), rtol=0.0, atol=1e-5)


def test_a_chain_calibrates_one_column_of_probabilities():
    X, y, model = classifier(2)
    calibrator = SplineCalibrator().fit(model.predict_proba(X)[:, 1], y)
    got = run(to_onnx(calibrator, after=scoring(model, last="Sigmoid")), X, "features")
    np.testing.assert_allclose(got, calibrator.predict_proba(model.predict_proba(X)[:, 1]), rtol=0.0, atol=1e-5)


def scoring(model, factors=(1.0,), names=("margin",), last="Identity"):
    """A linear model written by hand: a column for each factor, the same in each output."""
    helper, columns = onnx.helper, len(factors)
    weight = (model.coef_.T * np.array([factors])).astype(np.float32)
    bias = (model.intercept_ * np.array(factors)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["features", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        *[helper.make_node(last, ["sum"], [name]) for name in names],
    ]
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", columns]) for name in names]
    features = helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, ["N", model.coef_.shape[1]])
    constants = [
        onnx.numpy_helper.from_array(weight, "w"),
        onnx.numpy_helper.from_array(bias, "b"),
    ]
    graph = helper.make_graph(nodes, "linear", [features], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_model_that_is_chained_stays_as_it_is():
    X, y, model = classifier(2)
    first = converted(model, X)
    before = first.SerializeToString()
    to_onnx(SplineCalibrator().fit(model.predict_proba(X), y), after=first)
    assert first.SerializeToString() == before


def test_a_model_without_fitting_scores_is_an_error(fitted):
    X, y, _ = classifier(2)
    model = LinearSVC(dual=False).fit(X, y)
    for after in (scoring(model, factors=(1.0,) * 5), scoring(model, names=("one", "other"))):
        with pytest.raises(
            ValueError, match=r"after must have one output of shape \(N, 2\) with scores; its outputs are"
        ):
            to_onnx(fitted("identity"), after=after)


def test_what_is_no_model_or_too_old_is_an_error(fitted):
    with pytest.raises(TypeError, match=r"after must be an onnx.ModelProto; got str"):
        to_onnx(fitted("logit"), after="model.onnx")
    X, y, _ = classifier(2)
    old = scoring(LinearSVC(dual=False).fit(X, y))
    old.opset_import[0].version = 9
    with pytest.raises(ValueError, match="after must have an opset from 13"):
        to_onnx(fitted("identity"), after=old)


def test_an_unknown_type_is_an_error_that_names_the_domain(fitted):
    with pytest.raises(ValueError, match="dtype must be one of 'float64', 'float32'; got 'float16'"):
        to_onnx(fitted("logit"), dtype="float16")
