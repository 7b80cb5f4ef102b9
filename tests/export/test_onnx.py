import warnings

import numpy as np
import onnx
import onnxruntime as runtime
import pyarrow as pa
import pytest
import skl2onnx
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from calspline import (
    CalibratedClassifierCV,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    fit_frame,
)
from calspline.export import to_onnx


def run(model, scores, name="scores"):
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    assert len(session.get_outputs()) == 1
    return session.run(None, {name: scores})[0]


def columns(case, dtype):
    """Scores as the model wants them, in this type: both columns of probabilities, one of margins."""
    with np.errstate(over="ignore"):
        scores = case.scores.astype(dtype)
    scores = scores[np.isfinite(scores).reshape(len(scores), -1).all(axis=1)]
    if scores.ndim == 1 and case.calibrator.model_.kind.value_kind == "probability":
        return np.column_stack([dtype(1.0) - scores, scores])
    return scores.reshape(len(scores), -1)


def test_onnx_agrees_with_python(case):
    scores = columns(case, np.float64)
    got = run(to_onnx(case.calibrator), scores)
    assert got.dtype == np.float64
    np.testing.assert_allclose(
        got, case.calibrator.predict_proba(scores), rtol=0.0, atol=1e-9
    )


def test_onnx_in_single_precision_agrees_with_python(case):
    if case.name == "large margins":
        with pytest.raises(
            ValueError, match='dtype must be "float64" for this calibrator'
        ):
            to_onnx(case.calibrator, dtype="float32")
        return
    scores = columns(case, np.float32)
    got = run(to_onnx(case.calibrator, dtype="float32"), scores)
    assert got.dtype == np.float32
    np.testing.assert_allclose(
        got, case.calibrator.predict_proba(scores), rtol=0.0, atol=1e-5
    )


def test_models_use_standard_operators_only(case):
    model = to_onnx(case.calibrator)
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}
    assert len({node.name for node in model.graph.node} - {""}) == len(
        model.graph.node
    )  # onnxruntime 1.18 needs names


def test_two_columns_keep_what_one_rounds_away(fitted):
    scores = np.array([[1e-40, 1.0], [1e-200, 1.0]])
    got = run(to_onnx(fitted("asinh_logit")), scores)
    np.testing.assert_allclose(
        got, fitted("asinh_logit").predict_proba(scores), rtol=0.0, atol=1e-9
    )
    assert got[0, 1] < got[1, 1]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_that_are_no_scores_give_nan(fitted, dtype):
    rows = np.array([[0.5, 0.6], [-0.2, 1.2], [np.nan, 0.5], [0.4, 0.6]], dtype=dtype)
    assert np.isnan(run(to_onnx(fitted("logit"), dtype=dtype), rows)).all(
        axis=1
    ).tolist() == [True] * 3 + [False]
    margins = np.array([[np.inf], [np.nan], [0.5]], dtype=dtype)
    assert np.isnan(run(to_onnx(fitted("identity"), dtype=dtype), margins)).all(
        axis=1
    ).tolist() == [True, True, False]


def test_a_probability_that_a_model_rounded_past_one_is_one(fitted):
    model = to_onnx(fitted("logit"), dtype="float32")
    over = np.array(
        [[0.0, np.nextafter(np.float32(1), np.float32(2))], [0.0, 1.0]],
        dtype=np.float32,
    )
    got = run(model, over)
    assert got[0].tolist() == got[1].tolist()


def test_scores_that_python_refuses_give_nan_and_no_others(fitted):
    """The tolerances of both are the same: 0.005 for the sum of a row, rounding for a probability."""
    rows = np.array(
        [
            [0.5, 0.5049],
            [0.5, 0.5051],
            [1.0001, -0.0001],
            [1.004, 0.0],
            [0.5, 0.4951],
            [0.5, 0.4949],
        ]
    )
    for name in ("logit", "beta"):
        calibrator = fitted(name)
        got = run(to_onnx(calibrator), rows)
        for row, p in zip(rows, got, strict=True):
            try:
                expected = calibrator.predict_proba(row[None])[0]
            except ValueError:
                expected = np.full(2, np.nan)
            np.testing.assert_allclose(p, expected, rtol=0.0, atol=1e-9)


def test_no_rows_give_no_rows(fitted):
    assert run(to_onnx(fitted("ovr")), np.empty((0, 3))).shape == (0, 3)


def classifier(n_classes):
    X, y = make_classification(
        2000, n_informative=6, n_classes=n_classes, random_state=0
    )
    X = X.astype(np.float32)
    return X, y, LogisticRegression(max_iter=500).fit(X, y)


def converted(model, X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of what skl2onnx reads of SVC
        return skl2onnx.to_onnx(
            model,
            X[:1],
            options={id(model): {"zipmap": False} | options},
            target_opset=17,
        )


@pytest.mark.parametrize("given", ["classifier", "model", "text", "path"])
@pytest.mark.parametrize(
    ("n_classes", "multiclass"), [(2, "structured"), (3, "structured"), (3, "ovr")]
)
def test_one_model_goes_from_features_to_calibrated_probabilities(
    n_classes, multiclass, given, tmp_path
):
    X, y, model = classifier(n_classes)
    calibrator = SplineCalibrator(multiclass=multiclass).fit(model.predict_proba(X), y)
    path = tmp_path / "model.onnx"
    onnx.save(converted(model, X), path)
    after = {
        "classifier": model,
        "model": converted(model, X),
        "text": str(path),
        "path": path,
    }
    chain = to_onnx(calibrator, after=after[given], dtype="float32")
    got = run(chain, X, chain.graph.input[0].name)
    # The classifier itself computes in single precision.
    np.testing.assert_allclose(
        got, calibrator.predict_proba(model.predict_proba(X)), rtol=0.0, atol=1e-5
    )


def test_a_chain_calibrates_margins_too():
    X, y, _ = classifier(2)
    model = LinearSVC(dual=False).fit(X, y)
    calibrator = SplineCalibrator(scale="identity").fit(model.decision_function(X), y)
    chain = to_onnx(calibrator, after=scoring(model))
    got = run(chain, X, "features")
    np.testing.assert_allclose(
        got, calibrator.predict_proba(model.decision_function(X)), rtol=0.0, atol=1e-5
    )


def test_a_chain_takes_the_difference_of_two_margins():
    X, y, _ = classifier(2)
    model = LinearSVC(dual=False).fit(X, y)
    margins = model.decision_function(X)
    calibrator = SplineCalibrator(scale="identity").fit(
        np.column_stack([-margins, 0.5 * margins]), y
    )
    got = run(
        to_onnx(calibrator, after=scoring(model, factors=(-1.0, 0.5))), X, "features"
    )
    np.testing.assert_allclose(
        got, calibrator.predict_proba(1.5 * margins), rtol=0.0, atol=1e-5
    )


def test_a_chain_calibrates_one_column_of_probabilities():
    X, y, model = classifier(2)
    calibrator = SplineCalibrator().fit(model.predict_proba(X)[:, 1], y)
    got = run(to_onnx(calibrator, after=scoring(model, last="Sigmoid")), X, "features")
    np.testing.assert_allclose(
        got, calibrator.predict_proba(model.predict_proba(X)[:, 1]), rtol=0.0, atol=1e-5
    )


def scoring(model, factors=(1.0,), names=("margin",), last="Identity"):
    """A linear model written by hand: a column for each factor, the same in each output.

    Without factors, a column for each class.
    """
    helper = onnx.helper
    weight = model.coef_.T
    bias = model.intercept_
    if factors is not None:
        weight = weight * np.array([factors])
        bias = bias * np.array(factors)
    nodes = [
        helper.make_node("MatMul", ["features", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        *[helper.make_node(last, ["sum"], [name]) for name in names],
    ]
    outputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", len(bias)])
        for name in names
    ]
    features = helper.make_tensor_value_info(
        "features", onnx.TensorProto.FLOAT, ["N", len(weight)]
    )
    constants = [
        onnx.numpy_helper.from_array(weight.astype(np.float32), "w"),
        onnx.numpy_helper.from_array(bias.astype(np.float32), "b"),
    ]
    graph = helper.make_graph(nodes, "linear", [features], outputs, constants)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


def test_the_model_that_is_chained_stays_as_it_is():
    X, y, model = classifier(2)
    first = converted(model, X)
    before = first.SerializeToString()
    to_onnx(SplineCalibrator().fit(model.predict_proba(X), y), after=first)
    assert first.SerializeToString() == before


def test_a_model_without_fitting_scores_is_an_error(fitted):
    X, y, _ = classifier(2)
    model = LinearSVC(dual=False).fit(X, y)
    for after in (
        scoring(model, factors=(1.0,) * 5),
        scoring(model, names=("one", "other")),
    ):
        with pytest.raises(
            ValueError,
            match=r"one output of numbers with scores, of shape \(N, 2\) or \(N, 1\), "
            "or output must name it",
        ):
            to_onnx(fitted("identity"), after=after)


def test_dictionaries_of_scores_are_an_error_that_tells_the_way_out(fitted):
    X, _, model = classifier(2)
    with pytest.raises(
        ValueError,
        match=r'options=\{"zipmap": False\}, or give the fitted scikit-learn',
    ):
        to_onnx(fitted("logit"), after=converted(model, X, zipmap=True))


def chain_from_bytes(after, calibrator, X, segments):
    """What a calibrator behind a model gives; the model stays as it is."""
    before = after.SerializeToString()
    chain = to_onnx(calibrator, after=after)
    assert after.SerializeToString() == before
    session = runtime.InferenceSession(
        chain.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    given = {session.get_inputs()[0].name: X}
    if segments is not None:
        dtype = object if isinstance(segments[0], str) else np.int64
        given["by"] = np.array(segments, dtype=dtype)
    return session.run(None, given)[0]


@pytest.mark.parametrize("opset", [None, 13, 21])
@pytest.mark.parametrize("by", [None, ["x", "y"], [3, 4]], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_chain_takes_models_of_later_opsets(opset, by, n_classes):
    """Without ZipMap skl2onnx imports the same opset twice."""
    X, y, model = classifier(n_classes)
    segments = None if by is None else [by[k % 2] for k in range(len(X))]
    calibrator = SplineCalibrator().fit(model.predict_proba(X), y, by=segments)
    options = {"zipmap": False}
    first = skl2onnx.to_onnx(model, X[:1], options=options, target_opset=opset)
    got = chain_from_bytes(first, calibrator, X, segments)
    wanted = calibrator.predict_proba(model.predict_proba(X), by=segments)
    np.testing.assert_allclose(got, wanted, rtol=0.0, atol=1e-5)


def test_a_model_of_an_opset_that_does_not_fit_is_an_error(fitted):
    X, y, model = classifier(2)
    advice = r"as in skl2onnx.to_onnx\(model, X, target_opset=17\), or give the fitted"
    options = {"zipmap": False}
    early = skl2onnx.to_onnx(model, X[:1], options=options, target_opset=12)
    late = scoring(LinearSVC(dual=False).fit(X, y))
    late.opset_import[0].version = onnx.defs.onnx_opset_version() + 1
    for after in (early, late):
        with pytest.raises(
            ValueError, match=rf"after must have an opset from 13 to .*{advice}"
        ):
            to_onnx(fitted("logit"), after=after)


def test_what_is_no_model_is_an_error(fitted):
    with pytest.raises(
        TypeError, match=r"an onnx.ModelProto or the path of one; got int"
    ):
        to_onnx(fitted("logit"), after=3)


def test_an_unknown_type_is_an_error_that_names_the_domain(fitted):
    with pytest.raises(
        ValueError, match="dtype must be one of 'float64', 'float32'; got 'float16'"
    ):
        to_onnx(fitted("logit"), dtype="float16")


# Behind a classifier kind, columns and labels are those of the calibrator's fit.

NAMES = np.array(["cat", "dog", "emu"])


def fitted_model(model, n_classes=2):
    X, y, _ = classifier(n_classes)
    labels = NAMES[y]
    return X, labels, model.fit(X, labels)


MARGINS = [
    LogisticRegression(),
    LinearSVC(dual=False),
    SGDClassifier(random_state=0),
    GradientBoostingClassifier(n_estimators=5),
    SVC(),
]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", MARGINS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("method", [SigmoidCalibrator, TemperatureCalibrator])
def test_a_calibrator_of_margins_reads_a_classifiers_margins(model, method, n_classes):
    X, y, model = fitted_model(model, n_classes)
    calibrator = method().fit(model.decision_function(X), y)
    chain = to_onnx(calibrator, after=model, dtype="float32")
    got = run(chain, X, "features")
    np.testing.assert_allclose(
        got, calibrator.predict_proba(model.decision_function(X)), rtol=0.0, atol=1e-4
    )


def test_a_classifier_without_the_scores_of_the_fit_is_refused():
    X, y, forest = fitted_model(RandomForestClassifier(5, random_state=0))
    machine = LinearSVC(dual=False).fit(X, y)
    of_margins = SigmoidCalibrator().fit(machine.decision_function(X), y)
    with pytest.raises(
        ValueError, match="RandomForestClassifier, has no decision_func"
    ):
        to_onnx(of_margins, after=forest)
    of_probabilities = SigmoidCalibrator().fit(forest.predict_proba(X), y)
    with pytest.raises(ValueError, match="LinearSVC, has no predict_proba"):
        to_onnx(of_probabilities, after=machine)


@pytest.mark.parametrize("last", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_of_a_graph_that_cannot_be_those_of_the_fit_give_nan(n_classes, last):
    X, y, model = fitted_model(LogisticRegression(), n_classes)
    factors = (-1.0, 1.0) if n_classes == 2 else None
    scores = scoring(model, factors=factors, last=last)
    if last == "Softmax":
        logits = np.log(model.predict_proba(X))
        calibrator = SigmoidCalibrator().fit(logits, y)
    else:
        calibrator = SigmoidCalibrator().fit(model.predict_proba(X), y)
    assert np.isnan(run(to_onnx(calibrator, after=scores), X, "features")).all()


def test_two_columns_for_a_fit_on_one_margin_are_refused():
    """Their order is not that of the classes in every graph that skl2onnx makes."""
    X, y, model = fitted_model(SVC())
    calibrator = SplineCalibrator(scale="identity").fit(model.decision_function(X), y)
    with pytest.raises(
        ValueError,
        match="after gives two columns, probabilities, and the calibrator was fitted on "
        "one column of margins of the second class; name an output of shape",
    ):
        to_onnx(calibrator, after=converted(model, X))


def test_a_spline_of_the_score_itself_goes_behind_probabilities():
    X, y, model = fitted_model(LogisticRegression())
    calibrator = SplineCalibrator.paper(algorithm=1).fit(
        model.predict_proba(X)[:, 1], y
    )
    expected = calibrator.predict_proba(model.predict_proba(X))
    got = run(to_onnx(calibrator, after=converted(model, X)), X, "X")
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-5)
    chain = to_onnx(calibrator, after=model)
    got = run(chain, X.astype(np.float64), "features")
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), GaussianNB()],
    ids=lambda model: type(model).__name__,
)
def test_columns_are_put_in_the_order_of_the_calibrators_classes(model):
    X, y, model = fitted_model(model)
    frame = pa.table({"cat": model.predict_proba(X)[:, 0], "y": y})
    calibrator = fit_frame(frame, score="cat", label="y", positive="cat")
    assert calibrator.classes_.tolist() == ["dog", "cat"]
    expected = calibrator.predict_proba(model.predict_proba(X)[:, ::-1])
    got = run(to_onnx(calibrator, after=model, dtype="float32"), X, "features")
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-5)
    with pytest.warns(
        UserWarning,
        match=r"does not name the classes of its columns; .* order, \['dog', 'cat'\]",
    ):
        chain = to_onnx(calibrator, after=converted(model, X))
    as_they_are = calibrator.predict_proba(model.predict_proba(X))
    np.testing.assert_allclose(run(chain, X, "X"), as_they_are, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("labels", [[False, True], [0.0, 1.0], [0, 1]], ids=str)
def test_classes_are_compared_by_value(labels):
    X, y, _ = classifier(2)
    model = LogisticRegression().fit(X, y)
    calibrator = SplineCalibrator().fit(model.predict_proba(X), np.array(labels)[y])
    got = run(to_onnx(calibrator, after=model, dtype="float32"), X, "features")
    np.testing.assert_allclose(
        got, calibrator.predict_proba(model.predict_proba(X)), rtol=0.0, atol=1e-5
    )


def test_other_classes_are_refused():
    X, y, model = fitted_model(LogisticRegression())
    calibrator = SplineCalibrator().fit(
        model.predict_proba(X), np.where(y == "cat", "ant", "bee")
    )
    with pytest.raises(
        ValueError,
        match=r"the classes of the calibrator, \['ant', 'bee'\]; it has \['cat', 'dog'\]",
    ):
        to_onnx(calibrator, after=model)


def test_one_column_of_the_other_class_is_refused():
    X, y, model = fitted_model(LinearSVC(dual=False))
    calibrator = fit_frame(
        pa.table({"s": -model.decision_function(X), "y": y}),
        score="s",
        label="y",
        positive="cat",
        scale="identity",
    )
    with pytest.raises(
        ValueError,
        match="after gives the score of 'dog', and the calibrator was fitted on that of 'cat'",
    ):
        to_onnx(calibrator, after=model)


# A CalibratedClassifierCV as a whole.

WHOLES = [
    LogisticRegression(max_iter=500),
    LinearSVC(dual=False),
    SGDClassifier(random_state=0),
    SVC(),
    RandomForestClassifier(10, random_state=0),
    GradientBoostingClassifier(n_estimators=10),
    make_pipeline(
        StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression())
    ),
    StackingClassifier([("a", LogisticRegression()), ("b", GaussianNB())]),
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", ["spline", "sigmoid"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", WHOLES, ids=lambda model: type(model).__name__)
def test_a_calibrated_classifier_is_exported_as_a_whole(
    model, n_classes, method, dtype
):
    X, y = (values[:300] for values in classifier(n_classes)[:2])
    wrapper = CalibratedClassifierCV(model, method=method, cv=2).fit(X, NAMES[y])
    got = run(to_onnx(wrapper, dtype=dtype), X.astype(dtype), "features")
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wrapper.predict_proba(X), rtol=0.0, atol=1e-4)


def test_an_ensemble_of_calibrated_classifiers_is_averaged():
    X, y, _ = classifier(3)
    wrapper = CalibratedClassifierCV(
        LogisticRegression(max_iter=500), cv=3, ensemble=True
    ).fit(X, y)
    chain = to_onnx(wrapper)
    onnx.checker.check_model(chain, full_check=True)
    got = run(chain, X.astype(np.float64), "features")
    np.testing.assert_allclose(got, wrapper.predict_proba(X), rtol=0.0, atol=1e-5)


def test_a_frozen_model_is_exported_with_its_calibrator():
    X, y, model = classifier(2)
    wrapper = CalibratedClassifierCV(FrozenEstimator(model)).fit(X, y)
    got = run(to_onnx(wrapper), X.astype(np.float64), "features")
    np.testing.assert_allclose(got, wrapper.predict_proba(X), rtol=0.0, atol=1e-5)


def test_what_a_whole_export_cannot_do_is_an_error():
    X, y, model = classifier(2)
    wrapper = CalibratedClassifierCV(model, cv=3)
    with pytest.raises(NotFittedError):
        to_onnx(wrapper)
    wrapper.fit(X, y)
    with pytest.raises(
        ValueError,
        match="after is for a calibrator; a CalibratedClassifierCV has its model already",
    ):
        to_onnx(wrapper, after=converted(model, X))
    texts = make_pipeline(HashingVectorizer(), LogisticRegression())
    wrapper = CalibratedClassifierCV(texts, cv=2).fit(["good", "bad"] * 10, [1, 0] * 10)
    with pytest.raises(
        TypeError,
        match="to_onnx converts classifiers of columns of numbers; got Pipeline",
    ):
        to_onnx(wrapper)


def test_a_model_that_is_converted_wrongly_is_refused():
    X, y, _ = classifier(
        2
    )  # the softmax of both margins, which are opposite, is that of twice the margin
    wrapper = CalibratedClassifierCV(LinearDiscriminantAnalysis(), cv=3).fit(X, y)
    with pytest.raises(
        ValueError,
        match="skl2onnx converts LinearDiscriminantAnalysis wrongly: its predict_proba is",
    ):
        to_onnx(wrapper)


def test_an_output_may_be_named():
    X, y, _ = classifier(2)
    model = LinearSVC(dual=False).fit(X, y)
    calibrator = SplineCalibrator(scale="identity").fit(model.decision_function(X), y)
    after = scoring(model, names=("one", "other"))
    expected = calibrator.predict_proba(model.decision_function(X))
    got = run(to_onnx(calibrator, after=after, output="other"), X, "features")
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-5)
    with pytest.raises(ValueError, match="its outputs are one, other"):
        to_onnx(calibrator, after=after, output="third")
    with pytest.raises(ValueError, match="output names an output of an ONNX model"):
        to_onnx(calibrator, output="other")


def labels_and_probabilities(model, X):
    """What a model of skl2onnx without ZipMap gives."""
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"X": X})


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "names", [np.arange(3), np.array(["a", "b", "c"]), np.array([False, True, True])]
)
def test_skl2onnx_converts_a_pipeline_with_a_calibrated_classifier(names, dtype):
    X, y, _ = classifier(3)
    wrapper = CalibratedClassifierCV(LogisticRegression(), cv=2)
    pipeline = make_pipeline(StandardScaler(), wrapper).fit(X, names[y])
    given = X.astype(dtype)
    model = skl2onnx.to_onnx(
        pipeline, given[:1], options={id(pipeline): {"zipmap": False}}
    )
    label, p = labels_and_probabilities(model, given)
    expected = pipeline.predict_proba(given)
    np.testing.assert_allclose(p, expected, rtol=0.0, atol=1e-5)
    assert label.tolist() == pipeline.predict(given).tolist()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_skl2onnx_converts_a_calibrator(fitted):
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    for name in ("structured", "ovr", "clipping of rows"):
        model = skl2onnx.to_onnx(fitted(name), rows[:1], options={"zipmap": False})
        label, p = labels_and_probabilities(model, rows)
        expected = fitted(name).predict_proba(rows)
        np.testing.assert_allclose(p, expected, rtol=0.0, atol=1e-9)
        assert label.tolist() == fitted(name).predict(rows).tolist()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_skl2onnx_makes_dictionaries_of_probabilities(fitted):
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 5).astype(np.float32)
    model = skl2onnx.to_onnx(fitted("structured"), rows[:1])
    _, p = labels_and_probabilities(model, rows)
    expected = fitted("structured").predict_proba(rows)
    np.testing.assert_allclose(
        [list(row.values()) for row in p], expected, rtol=0.0, atol=1e-5
    )


def test_skl2onnx_is_told_that_segments_are_a_second_input():
    scores = np.random.default_rng(0).uniform(size=(400, 1))
    y = np.arange(400) % 2
    calibrator = SplineCalibrator().fit(scores[:, 0], y, by=np.arange(400) // 200)
    with pytest.raises(ValueError, match="cannot convert a calibrator with segments"):
        skl2onnx.to_onnx(calibrator, np.column_stack([1.0 - scores, scores])[:1])
