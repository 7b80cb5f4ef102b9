import numpy as np
import pandas as pd
import pytest

from calspline import ScoreHistogram, SplineCalibrator, fit_frame
from calspline.engines import aggregate as sampling
from calspline.engines.aggregate import FIRST_LEVEL, aggregate
from calspline.engines.backends import ENGINES

GRID = np.concatenate(
    [[0.0, 1.0, 5e-324, 1e-310, 1 - 1e-16], np.linspace(0.001, 0.999, 500)]
)


def same(fitted, array_fit, scores=GRID):
    np.testing.assert_allclose(
        fitted.calibrate(scores), array_fit.calibrate(scores), rtol=0, atol=1e-9
    )


def test_every_engine_gives_the_fit_of_arrays(engine, data):
    frame = data()
    fitted = fit_frame(engine.make(frame), score="p", label="outcome", weight="w")
    wanted = SplineCalibrator().fit(frame["p"], frame["outcome"], frame["w"])
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.histogram_.level == wanted.histogram_.level
    np.testing.assert_allclose(
        fitted.histogram_.locations, wanted.histogram_.locations, rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(
        fitted.histogram_.positives, wanted.histogram_.positives, rtol=1e-12
    )
    same(fitted, wanted)


def test_beyond_4096_scores_every_engine_uses_the_cells_of_arrays(engine, data):
    frame = data(30_000)
    fitted = fit_frame(engine.make(frame), score="p", label="outcome")
    wanted = SplineCalibrator().fit(frame["p"], frame["outcome"])
    assert fitted.histogram_.level == wanted.histogram_.level is not None
    assert fitted.histogram_.cells.tolist() == wanted.histogram_.cells.tolist()
    same(fitted, wanted)


@pytest.mark.parametrize("unit", [1e-20, 1e-13])
def test_many_margins_in_a_tiny_unit_are_told_apart_in_every_engine(engine, unit):
    rng = np.random.default_rng(0)
    x = rng.normal(size=6000)
    y = (rng.random(6000) < 1 / (1 + np.exp(-2 * x))).astype(int)
    frame = pd.DataFrame({"x": unit * x, "y": y})
    fitted = fit_frame(engine.make(frame), score="x", label="y")
    same(fitted, SplineCalibrator().fit(frame["x"], y), frame["x"].to_numpy()[:500])


def test_missing_values_are_an_error_that_counts_them_in_every_engine(engine, data):
    frame = data(300)
    frame.loc[[3, 7], "p"] = np.nan
    frame.loc[5, "outcome"] = None
    frame.loc[[1, 2, 9], "w"] = np.nan
    made = engine.make(frame)
    with pytest.raises(
        ValueError,
        match=r"found 2 of 300 in 'p', 3 of 300 in 'w', 1 of 300 in 'outcome'.*missing=",
    ):
        fit_frame(made, score="p", label="outcome", weight="w")
    whole = frame.dropna()
    wanted = SplineCalibrator().fit(whole["p"], whole["outcome"], whole["w"])
    same(
        fit_frame(made, score="p", label="outcome", weight="w", missing="drop"), wanted
    )


def test_one_vs_rest_from_every_engine_is_that_of_arrays(engine, three_classes):
    frame, names = three_classes(9000)
    wanted = SplineCalibrator(multiclass="ovr").fit(
        frame[names].to_numpy(), frame["kind"]
    )
    fitted = fit_frame(
        engine.make(frame), score=names[::-1], label="kind", multiclass="ovr"
    )
    assert fitted.classes_.tolist() == names
    p = frame[names].to_numpy()[:500]
    np.testing.assert_allclose(
        fitted.predict_proba(p), wanted.predict_proba(p), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("at_most", [200_000, 800])
def test_one_vs_rest_of_logits_from_every_engine_is_that_of_arrays(
    engine, three_classes, monkeypatch, at_most
):
    """Also of more rows than a sample has, from which the unit of logits is not taken."""
    monkeypatch.setattr(sampling, "MAX_SAMPLE", at_most)
    frame, names = three_classes(3000)
    logits = (
        np.log(np.maximum(frame[names].to_numpy(), 1e-4)) + np.arange(3000)[:, None] % 7
    )
    frame[names] = logits
    wanted = SplineCalibrator(multiclass="ovr").fit(logits, frame["kind"])
    fitted = fit_frame(engine.make(frame), score=names, label="kind", multiclass="ovr")
    assert fitted.scale_ == wanted.scale_ == ["logit"] * 3
    np.testing.assert_allclose(
        fitted.model_.map.unit, wanted.model_.map.unit, rtol=1e-9
    )
    np.testing.assert_allclose(
        fitted.predict_proba(logits), wanted.predict_proba(logits), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize(
    "labels", [[0, 1, 2], [1, 2, 3], [30, 10, 20], ["x", "z", "y"], [1.0, 2.0, 4.0]]
)
@pytest.mark.parametrize("kind", ["pandas", "polars-lazy", "dask"])
@pytest.mark.filterwarnings(
    "ignore:the columns of score are not named after the classes"
)
@pytest.mark.filterwarnings(
    "ignore:the class of the largest score is right:UserWarning",
    "ignore:scores are lower where",
)
def test_classes_of_any_labels_and_weights_give_the_fit_of_arrays(
    three_classes, labels, kind
):
    import dask.dataframe as dd
    import polars as pl

    frame, names = three_classes(2000)
    code = np.searchsorted(names, frame["kind"])
    frame["kind"], frame["w"] = np.array(labels)[code], np.arange(2000) % 3 * 0.5
    p = frame[names].to_numpy()
    wanted = SplineCalibrator(multiclass="ovr").fit(p, frame["kind"], frame["w"])
    make = {
        "pandas": pd.DataFrame,
        "polars-lazy": lambda f: pl.from_pandas(f).lazy(),
        "dask": dd.from_pandas,
    }[kind]
    fitted = fit_frame(
        make(frame), score=names, label="kind", weight="w", multiclass="ovr"
    )
    assert fitted.classes_.tolist() == sorted(labels)
    np.testing.assert_allclose(
        fitted.predict_proba(p), wanted.predict_proba(p), rtol=0, atol=1e-9
    )


def test_structured_from_every_engine_is_that_of_arrays(engine, three_classes):
    frame, names = three_classes(1500)
    wanted = SplineCalibrator().fit(frame[names].to_numpy(), frame["kind"])
    fitted = fit_frame(engine.make(frame), score=names, label="kind")
    p = frame[names].to_numpy()[:500]
    np.testing.assert_allclose(
        fitted.predict_proba(p), wanted.predict_proba(p), rtol=0, atol=1e-9
    )


@pytest.fixture
def three_classes():
    def make(n):
        rng = np.random.default_rng(5)
        z = rng.normal(0, 2, (n, 3))
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        p[:30] = [0.5, 0.5, 0.0]
        p[30:40] = [1.0, 0.0, 0.0]
        truth = np.exp(0.5 * np.log(np.maximum(p, 1e-9)))
        truth /= truth.sum(axis=1, keepdims=True)
        names = ["bird", "cat", "dog"]
        code = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        frame = pd.DataFrame(dict(zip(names, p.T, strict=True)))
        frame["kind"] = np.array(names)[code]
        return frame, names

    return make


def test_the_same_sample_is_drawn_in_any_order_and_engine(three_classes, monkeypatch):
    import duckdb
    import polars as pl

    monkeypatch.setattr(sampling, "MAX_SAMPLE", 800)
    frame, names = three_classes(6000)
    p = frame[names].to_numpy()[:500]
    fits = [
        fit_frame(each, score=names, label="kind").predict_proba(p)
        for each in (
            pl.from_pandas(frame).lazy(),
            pl.from_pandas(frame.sample(frac=1, random_state=0)).lazy(),
            duckdb.from_df(frame),
        )
    ]
    np.testing.assert_allclose(fits[1], fits[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(fits[2], fits[0], rtol=0, atol=1e-9)
    whole = (
        SplineCalibrator().fit(frame[names].to_numpy(), frame["kind"]).predict_proba(p)
    )
    assert 0 < np.abs(fits[0] - whole).max() < 0.2
    in_memory = fit_frame(frame, score=names, label="kind")
    np.testing.assert_array_equal(in_memory.predict_proba(p), whole)


@pytest.mark.parametrize(
    ("labels", "positive", "classes"),
    [
        ([False, True], None, [False, True]),
        ([0, 1], None, [0, 1]),
        ([-1, 1], None, [-1, 1]),
        ([1, 2], 1, [2, 1]),
        ([0.0, 1.0], None, [0.0, 1.0]),
        (["bad", "good"], "bad", ["good", "bad"]),
    ],
)
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_labels_of_any_two_values_give_the_same_curve(
    data, labels, positive, classes, kind
):
    import polars as pl

    frame = data(2000)
    yes = (frame["outcome"] == "yes").to_numpy()
    values = np.array(classes)[yes.astype(int)]
    table = pl.DataFrame({"p": frame["p"].to_numpy(), "y": values})
    made = {
        "pandas": table.to_pandas,
        "polars": lambda: table,
        "pyarrow": table.to_arrow,
    }[kind]()
    fitted = fit_frame(made, score="p", label="y", positive=positive)
    assert fitted.classes_.tolist() == classes
    same(fitted, SplineCalibrator().fit(frame["p"], yes))


def test_categorical_labels_are_words(data):
    import polars as pl

    frame = data(2000)
    wanted = SplineCalibrator().fit(frame["p"], frame["outcome"])
    category = frame.assign(outcome=frame["outcome"].astype("category"))
    for made in (category, pl.from_pandas(category)):
        fitted = fit_frame(made, score="p", label="outcome")
        assert fitted.classes_.tolist() == ["no", "yes"]
        same(fitted, wanted)


def test_float32_columns_are_the_values_that_they_hold(data):
    frame = data(20_000).assign(p=lambda f: f["p"].astype(np.float32))
    same(
        fit_frame(frame, score="p", label="outcome"),
        SplineCalibrator().fit(
            frame["p"].to_numpy().astype(np.float64), frame["outcome"]
        ),
    )


def test_scores_in_a_narrow_range_get_a_finer_grid(data):
    frame = data(20_000)
    frame["p"] = 0.3 + 1e-4 * frame["p"]
    wanted = SplineCalibrator().fit(frame["p"], frame["outcome"])
    fitted = fit_frame(frame, score="p", label="outcome")
    assert fitted.histogram_.level == wanted.histogram_.level < 34
    same(fitted, wanted, frame["p"])


def test_scores_that_differ_in_their_last_digits_alone_are_told_apart(data):
    frame = data(9000)
    frame["p"] = 0.5 + np.spacing(0.5) * np.arange(9000)
    wanted = SplineCalibrator().fit(frame["p"], frame["outcome"])
    fitted = fit_frame(frame, score="p", label="outcome")
    assert fitted.histogram_.level == wanted.histogram_.level
    assert len(fitted.histogram_) == len(wanted.histogram_)


@pytest.mark.parametrize("scale", [3.0, 1e-3, 1e200])
def test_margins_of_any_size_give_the_fit_of_arrays(data, scale):
    import polars as pl

    frame = data(20_000)
    margin = scale * np.random.default_rng(1).normal(size=20_000)
    frame["margin"] = margin
    options = {"scale": "identity"}
    wanted = SplineCalibrator(**options).fit(margin, frame["outcome"])
    for made in (frame, pl.from_pandas(frame).lazy()):
        fitted = fit_frame(made, score="margin", label="outcome", **options)
        assert fitted.histogram_.level == wanted.histogram_.level
        same(fitted, wanted, margin)


def test_scores_outside_0_and_1_are_margins_as_in_arrays(data):
    frame = data(3000).assign(p=lambda f: 4 * f["p"] - 2)
    fitted = fit_frame(frame, score="p", label="outcome")
    assert fitted.scale_ == "identity"
    same(fitted, SplineCalibrator().fit(frame["p"], frame["outcome"]), frame["p"])


def test_two_columns_keep_what_one_rounds_away(data):
    frame = data(3000)
    u = np.random.default_rng(2).normal(30, 30, 3000)
    pair = 1 / (1 + np.exp(np.column_stack([u, -u])))
    frame["no"], frame["yes"] = pair.T
    fitted = fit_frame(frame, score=["yes", "no"], label="outcome")
    same(fitted, SplineCalibrator().fit(pair, frame["outcome"]), pair)


def test_zero_weights_are_rows_not_seen_even_of_a_third_label(data):
    frame = data(1000)
    frame.loc[frame["w"] == 0.0, "outcome"] = "unknown"
    seen = frame[frame["w"] > 0]
    same(
        fit_frame(frame, score="p", label="outcome", weight="w"),
        SplineCalibrator().fit(seen["p"], seen["outcome"], seen["w"]),
    )


def test_what_leaves_the_engine_does_not_grow_with_the_rows():
    import narwhals as nw
    import polars as pl

    def sums(n):
        u = np.random.default_rng(0).normal(0, 2.5, n)
        rows = nw.from_native(
            pl.DataFrame({"1": u, "code": u > 0, "w": np.ones(n)})
            .cast({"code": pl.Int64})
            .lazy()
        )
        return len(
            aggregate(
                rows, ["1"], "probability", FIRST_LEVEL, ENGINES["polars (lazy)"]
            )["1"]
        )

    assert sums(1_000_000) < 25_000
    assert sums(1_000_000) < 2 * sums(50_000)


def test_options_reach_the_calibrator(data):
    frame = data(1000)
    fitted = fit_frame(
        frame, score="p", label="outcome", smoothing="cv", random_state=3, monotone=True
    )
    wanted = SplineCalibrator(smoothing="cv", random_state=3, monotone=True).fit(
        frame["p"], frame["outcome"]
    )
    assert fitted.get_params() == wanted.get_params()
    same(fitted, wanted)


def test_the_histogram_of_the_fit_can_be_added_to_others(data):
    frame = data(12_000)
    parts = [
        fit_frame(part, score="p", label="outcome").histogram_
        for part in (frame[:5000], frame[5000:])
    ]
    whole = ScoreHistogram.from_scores(frame["p"], frame["outcome"])
    assert (parts[0] + parts[1]).cells.tolist() == whole.cells.tolist()


def bad_value(column, value):
    def change(frame):
        return frame.assign(**{column: frame[column].where(frame["id"] != 4, value)})

    return change


@pytest.mark.parametrize(
    ("change", "arguments", "error", "message"),
    [
        (
            None,
            {"score": "pp"},
            ValueError,
            "score must be a column of frame; there is no 'pp'. Did you mean 'p'",
        ),
        (
            None,
            {"label": "outcom"},
            ValueError,
            "label must be .*there is no 'outcom'. Did you mean 'outcome'",
        ),
        (
            None,
            {"weight": "weight"},
            ValueError,
            "weight must be a column of frame; there is no 'weight'",
        ),
        (
            None,
            {"score": "outcome"},
            TypeError,
            "score must be a column of numbers; 'outcome' is of type String",
        ),
        (
            None,
            {"score": 3},
            TypeError,
            "score must be the name of a column or a list of names; got int",
        ),
        (None, {"score": []}, ValueError, "score must name at least one column"),
        (None, {"score": ["p", "p"]}, ValueError, "score must be different columns"),
        (
            None,
            {"label": "id"},
            ValueError,
            "label must have two classes for one score; column 'id' has 300: 0, 1",
        ),
        (
            None,
            {"label": "p"},
            ValueError,
            "label must be classes, not continuous values; column 'p' has",
        ),
        (
            None,
            {"positive": "maybe"},
            ValueError,
            "positive must be a label; column 'outcome' has 'no', 'yes', not",
        ),
        (
            None,
            {"missing": "ignore"},
            ValueError,
            "missing must be one of 'error', 'drop'; got 'ignore'",
        ),
        (None, {"smoothing": -1.0}, ValueError, "smoothing must be"),
        (
            None,
            {"score": ["p", "w"]},
            ValueError,
            "each row of score must sum to one|probabilities in",
        ),
        (
            bad_value("p", np.inf),
            {},
            ValueError,
            "score must be finite; column 'p' has inf",
        ),
        (
            bad_value("p", 1.5),
            {"scale": "logit"},
            ValueError,
            "probabilities in .* column 'p' has 1.5.*identity",
        ),
        (
            bad_value("w", -1.0),
            {"weight": "w"},
            ValueError,
            "weight must not be negative; column 'w' has -1",
        ),
        (
            lambda f: f.assign(w=0.0),
            {"weight": "w"},
            ValueError,
            "weight must not be all zero; column 'w' is",
        ),
        (lambda f: f[:0], {}, ValueError, "frame must have at least two rows"),
        (
            lambda f: f.assign(outcome="no"),
            {},
            ValueError,
            "label must have two classes .*'outcome' has 1: 'no'",
        ),
    ],
)
def test_errors_name_the_argument_and_the_column(
    data, change, arguments, error, message
):
    frame = data(300)
    frame = frame if change is None else change(frame)
    arguments = {"score": "p", "label": "outcome"} | arguments
    if arguments["score"] == ["p", "w"]:
        arguments["scale"] = "logit"
    with pytest.raises(error, match=message):
        fit_frame(frame, **arguments)


def test_what_is_no_frame_is_an_error():
    with pytest.raises(
        TypeError, match=r"frame must be a data frame of pandas.*got list"
    ):
        fit_frame([[0.1, 1]], score="p", label="y")


def test_the_frame_is_left_as_it_was(data):
    frame = data(500)
    before = frame.copy()
    fit_frame(frame, score="p", label="outcome", weight="w")
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_names_of_columns_may_hold_anything(engine, three_classes, multiclass):
    """A dot is a field of a struct to Spark, unless the name is quoted."""
    frame, names = three_classes(600)
    odd = [f"p.{name}" for name in names]
    frame = frame.rename(
        columns=dict(zip([*names, "kind"], [*odd, "what.kind"], strict=True))
    ).assign(**{"w.x": 2.0})
    made = engine.make(frame)
    fitted = fit_frame(
        made, score=odd, label="what.kind", weight="w.x", multiclass=multiclass
    )
    rows = frame[odd].to_numpy()
    wanted = SplineCalibrator(multiclass=multiclass).fit(
        rows, frame["what.kind"], np.full(600, 2.0)
    )
    np.testing.assert_allclose(
        fitted.predict_proba(rows), wanted.predict_proba(rows), rtol=0, atol=1e-9
    )


def test_one_vs_rest_of_logits_in_another_unit_is_the_same_in_a_database(
    three_classes, monkeypatch
):
    """The unit of all rows comes from sums in the database."""
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.setattr(sampling, "MAX_SAMPLE", 200)
    frame, names = three_classes(600)
    logits = np.log(np.maximum(frame[names].to_numpy(), 1e-4))
    options = {"score": names, "label": "kind", "multiclass": "ovr"}
    for factor in (1.0, 1000.0):
        frame[names] = factor * logits
        table = duckdb.connect().from_df(frame)
        wanted = SplineCalibrator(multiclass="ovr").fit(factor * logits, frame["kind"])
        fitted = fit_frame(table, **options)
        np.testing.assert_allclose(
            fitted.model_.map.unit, wanted.model_.map.unit, rtol=1e-9
        )
        np.testing.assert_allclose(
            fitted.predict_proba(factor * logits),
            wanted.predict_proba(factor * logits),
            rtol=0,
            atol=1e-9,
        )
