import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from calspline import (
    IsotonicCalibrator,
    ReliabilityDisplay,
    SigmoidCalibrator,
    SplineCalibrator,
    reliability,
)


def segments(lines):
    return np.array([[lo[0], lo[1], hi[1]] for lo, hi in lines.get_segments()])


def names(ax):
    return (
        [text.get_text() for text in ax.get_legend().get_texts()]
        if ax.get_legend()
        else []
    )


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_points_are_the_bins_with_area_growing_with_their_weight(raw, part):
    display = ReliabilityDisplay.from_predictions(*raw, strategy="uniform")
    bins = reliability(*raw, strategy="uniform").bins
    points = part(display.ax_, "points-0")
    np.testing.assert_allclose(
        points.get_offsets(), np.column_stack([bins.mean_score, bins.observed])
    )
    np.testing.assert_array_equal(
        np.argsort(points.get_sizes()), np.argsort(bins.weight)
    )
    extra = points.get_sizes() - np.min(points.get_sizes())
    np.testing.assert_allclose(
        extra / extra.max(), (bins.weight - bins.weight.min()) / np.ptp(bins.weight)
    )


def test_error_bars_are_the_exact_intervals(raw, part):
    display = ReliabilityDisplay.from_predictions(*raw, n_bins=7, level=0.8)
    bins = reliability(*raw, n_bins=7, level=0.8).bins
    expected = np.column_stack(
        [bins.mean_score, bins.interval_lower, bins.interval_upper]
    )
    np.testing.assert_allclose(segments(part(display.ax_, "intervals-0")), expected)


def test_the_diagonal_goes_from_corner_to_corner(raw, part):
    display = ReliabilityDisplay.from_predictions(*raw)
    np.testing.assert_array_equal(
        part(display.ax_, "diagonal").get_xydata(), [[0, 0], [1, 1]]
    )


def test_the_histogram_shares_the_x_axis_and_shows_the_spread_of_the_scores(raw, part):
    _, p = raw
    display = ReliabilityDisplay.from_predictions(*raw)
    heights, edges, _ = part(display.histogram_ax_, "spread-0").get_data()
    expected, _ = np.histogram(p, edges)
    np.testing.assert_allclose(heights, expected / expected.max())
    assert (edges[0], edges[-1]) == (0.0, 1.0)
    assert display.histogram_ax_.get_xlim() == display.ax_.get_xlim()
    display.ax_.set_xlim(0.2, 0.4)
    assert display.histogram_ax_.get_xlim() == (0.2, 0.4)


def test_corp_and_spline_are_drawn_on_request_with_their_bands(raw, part, parts):
    data = reliability(*raw)
    ax = data.plot(corp=True, spline=True).ax_
    step = part(ax, "corp-0")
    np.testing.assert_allclose(
        step.get_xdata()[[0, -1]], [data.corp.lower[0], data.corp.upper[-1]]
    )
    np.testing.assert_allclose(np.unique(step.get_ydata()), np.unique(data.corp.value))
    np.testing.assert_allclose(
        part(ax, "spline-0").get_xydata(),
        np.column_stack([data.spline.score, data.spline.value]),
    )
    for gid, low, high in (
        ("corp-band-0", data.corp.band_lower, data.corp.band_upper),
        ("spline-band-0", data.spline.lower, data.spline.upper),
    ):
        (path,) = part(ax, gid).get_paths()
        np.testing.assert_allclose(
            [path.vertices[:, 1].min(), path.vertices[:, 1].max()],
            [low.min(), high.max()],
        )
    plain = data.plot().ax_
    assert not any(
        parts(plain, gid)
        for gid in ("corp-0", "corp-band-0", "spline-0", "spline-band-0")
    )


def test_any_number_of_calibration_functions_are_laid_over(raw, part):
    y, p = raw
    curves = {
        "spline": SplineCalibrator().fit(p, y),
        "isotonic": IsotonicCalibrator().fit(p, y),
        "sigmoid": SigmoidCalibrator().fit(p, y),
        "curve": SplineCalibrator().fit(p, y).curves_[0],
        "square": lambda score: score**2,
    }
    display = ReliabilityDisplay.from_predictions(y, p, curves=curves, name="raw")
    for i, curve in enumerate(curves.values()):
        x, value = part(display.ax_, f"function-{i}").get_data()
        np.testing.assert_allclose(value, getattr(curve, "calibrate", curve)(x))
        assert x[0] < 1e-3
        assert x[-1] > 1 - 1e-3
    assert names(display.ax_) == ["raw", *curves]
    looks = {
        (line.get_color(), str(line.get_linestyle()))
        for line in display.ax_.get_lines()
    }
    assert len(looks) == len(curves) + 1


def test_functions_that_are_none_are_refused_by_name(raw, three):
    y, p = raw
    with pytest.raises(
        TypeError,
        match=r"curves\['bad'\] must be a fitted calibrator or a callable; got int",
    ):
        ReliabilityDisplay.from_predictions(y, p, curves={"bad": 3})
    with pytest.raises(TypeError, match="curves must be a mapping"):
        ReliabilityDisplay.from_predictions(y, p, curves=[3])
    with pytest.raises(ValueError, match="must be of two classes; it was fitted to 3"):
        ReliabilityDisplay.from_predictions(
            y, p, curves={"three": SplineCalibrator().fit(three[1], three[0])}
        )
    with pytest.raises(ValueError, match="fitted on margins"):
        ReliabilityDisplay.from_predictions(
            y, p, curves={"m": SplineCalibrator().fit(9 * p - 4, y)}
        )
    with pytest.raises(
        ValueError, match=r"curves\['one'\] must give one number for each of"
    ):
        ReliabilityDisplay.from_predictions(y, p, curves={"one": lambda p: 0.5})


def test_before_and_after_share_the_axes_and_differ_by_colour_and_marker(raw, part):
    y, p = raw
    after = SplineCalibrator().fit(p, y).calibrate(p)
    display = ReliabilityDisplay.from_predictions(y, {"before": p, "after": after})
    first, second = (part(display.ax_, f"points-{i}") for i in (0, 1))
    np.testing.assert_allclose(
        first.get_offsets()[:, 0], reliability(y, p).bins.mean_score
    )
    np.testing.assert_allclose(
        second.get_offsets()[:, 0], reliability(y, after).bins.mean_score
    )
    assert not np.array_equal(first.get_facecolor(), second.get_facecolor())
    white = [1.0, 1.0, 1.0, 1.0]
    assert first.get_facecolor().tolist() == [white]  # open, like raw in the report
    assert second.get_edgecolor().tolist() == [white]
    assert names(display.ax_) == ["before", "after"]


def test_names_are_shown_letter_by_letter(raw, three):
    y, p = raw
    hostile = ["_hidden", "$x_1^2$", "50% & <b>", r"\alpha"]
    display = ReliabilityDisplay.from_predictions(
        y, dict.fromkeys(hostile[:2], p), curves=dict.fromkeys(hostile[2:], np.sqrt)
    )
    texts = display.ax_.get_legend().get_texts()
    assert [text.get_text() for text in texts] == hostile
    assert not any(text.get_parse_math() for text in texts)
    labels = np.array(["_a", "$b$", "c_$_"])
    panels = ReliabilityDisplay.from_predictions(
        labels[three[0]], three[1], labels=labels, classes="all"
    )
    assert [ax.get_title(loc="left") for ax in panels.axes_] == list(labels)
    assert not any(ax._left_title.get_parse_math() for ax in panels.axes_)
    dollars = ReliabilityDisplay.from_predictions(np.where(y == 1, "a$b_c$", "a"), p)
    assert (
        dollars.histogram_ax_.get_xlabel()
        == "predicted probability (probability of a$b_c$)"
    )
    assert not dollars.histogram_ax_.xaxis.label.get_parse_math()


def test_a_log_odds_axis_has_ticks_by_decades(raw):
    display = ReliabilityDisplay.from_predictions(*raw, scale="logit")
    assert (
        display.ax_.get_xscale()
        == display.ax_.get_yscale()
        == display.histogram_ax_.get_xscale()
        == "logit"
    )
    np.testing.assert_allclose(
        display.ax_.get_xticks(), [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999]
    )
    assert ticks(display.histogram_ax_.xaxis) == [
        "0.1%",
        "1%",
        "10%",
        "50%",
        "90%",
        "99%",
        "99.9%",
    ]


def test_exact_zeros_and_ones_are_drawn_at_the_limits_of_a_log_odds_axis_and_marked(
    part,
):
    rng = np.random.default_rng(0)
    p = rng.choice([0.0, 0.5, 1.0], 600)
    y = rng.random(600) < 0.2 + 0.6 * p
    display = ReliabilityDisplay.from_predictions(
        y, p, scale="logit", corp=True, spline=True
    )
    np.testing.assert_allclose(
        part(display.ax_, "points-0").get_offsets()[:, 0], [0.001, 0.5, 0.999]
    )
    labels = ticks(display.histogram_ax_.xaxis)
    assert (labels[0], labels[-1]) == ("≤0.1%", "≥99.9%")
    for gid in ("corp-0", "spline-0"):
        x, value = part(display.ax_, gid).get_data()
        assert x.min() >= 0.001
        assert x.max() <= 0.999
        assert len(np.unique(x)) == len(x), "nothing is heaped up at a limit"
        assert np.all((value > 0) & (value < 1))
    heights, edges, _ = part(display.histogram_ax_, "spread-0").get_data()
    widths = np.diff(np.log(edges / (1 - edges)))
    areas = (heights * widths)[heights > 0]
    np.testing.assert_allclose(
        areas / areas.sum(), [np.mean(p == 0), np.mean(p == 0.5), np.mean(p == 1)]
    )


def test_the_log_odds_histogram_counts_the_scores_and_not_the_cells_of_the_other_scale(
    raw, part
):
    _, p = raw
    display = ReliabilityDisplay.from_predictions(*raw, scale="logit")
    heights, edges, _ = part(display.histogram_ax_, "spread-0").get_data()
    expected, _ = np.histogram(np.clip(p, edges[0], edges[-1]), edges)
    density = expected / np.diff(np.log(edges / (1 - edges)))
    np.testing.assert_allclose(heights, density / density.max())


def test_rare_events_get_the_lower_half_of_the_log_odds_axis_and_sure_ones_the_upper():
    rng = np.random.default_rng(1)
    p = 1 / (1 + np.exp(-rng.normal(-7, 1, 40_000)))
    display = ReliabilityDisplay.from_predictions(
        rng.random(40_000) < p, p, scale="logit"
    )
    ticks = display.ax_.get_xticks()
    assert ticks[0] < 0.001
    assert ticks[-1] == 0.5
    display = ReliabilityDisplay.from_predictions(
        rng.random(40_000) > p, 1 - p, scale="logit"
    )
    np.testing.assert_allclose(display.ax_.get_xticks(), 1 - ticks[::-1])


def test_limits_zoom_in(raw):
    display = ReliabilityDisplay.from_predictions(*raw, limits=(0.0, 0.2))
    low, high = display.ax_.get_xlim()
    assert -0.02 < low <= 0.0
    assert 0.2 <= high < 0.22
    for limits, scale in (
        ((0.5,), "probability"),
        ((0.3, 0.2), "probability"),
        ((0, 0.5), "logit"),
        ((0, 2), "probability"),
    ):
        with pytest.raises(ValueError, match="limits must be"):
            ReliabilityDisplay.from_predictions(*raw, limits=limits, scale=scale)


def test_several_classes_are_judged_by_the_first_choice(three, part):
    y, p = three
    display = ReliabilityDisplay.from_predictions(y, p)
    right = reliability(p.argmax(axis=1) == y, p.max(axis=1)).bins
    points = part(display.ax_, "points-0").get_offsets()
    np.testing.assert_allclose(
        points, np.column_stack([right.mean_score, right.observed])
    )
    assert display.ax_.get_ylabel() == "observed frequency (it was right)"


def test_each_class_has_a_small_diagram_of_its_own(three, part):
    y, p = three
    display = ReliabilityDisplay.from_predictions(
        y, p, classes="all", strategy="uniform"
    )
    assert [ax.get_title(loc="left") for ax in display.axes_] == [
        "class 0",
        "class 1",
        "class 2",
    ]
    for j, ax in enumerate(display.axes_):
        bins = reliability(y == j, p[:, j], strategy="uniform").bins
        np.testing.assert_allclose(
            part(ax, "points-0").get_offsets()[:, 1], bins.observed
        )
    assert [ax.get_ylabel() for ax in display.axes_] == ["observed frequency", "", ""]
    some = ReliabilityDisplay.from_predictions(
        y, p, classes=[2, 0], scale="logit", histogram=False
    )
    assert [ax.get_title(loc="left") for ax in some.axes_] == ["class 2", "class 0"]
    assert some.histogram_ax_ is None
    with pytest.raises(ValueError, match=r"classes must be .* got \[7\]"):
        ReliabilityDisplay.from_predictions(y, p, classes=[7])


@pytest.mark.slow
def test_small_diagrams_have_one_size(three):
    y, p = np.tile(three[0], 2), np.repeat(three[1], 2, axis=1)[:, :5]
    p = np.vstack([p, p]) / np.tile(p, (2, 1)).sum(axis=1, keepdims=True)
    display = ReliabilityDisplay.from_predictions(y, p, classes="all")
    display.figure_.canvas.draw()
    sizes = np.array([ax.get_position().size for ax in display.axes_])
    np.testing.assert_allclose(sizes, sizes[:1].repeat(5, axis=0), rtol=1e-6)


def test_weights_count_as_rows(raw, part):
    y, p = raw
    w = np.random.default_rng(2).integers(0, 4, len(y))
    weighted = ReliabilityDisplay.from_predictions(y, p, sample_weight=w, scale="logit")
    repeated = ReliabilityDisplay.from_predictions(
        np.repeat(y, w), np.repeat(p, w), scale="logit"
    )
    for gid in ("points-0",):
        a, b = part(weighted.ax_, gid), part(repeated.ax_, gid)
        np.testing.assert_allclose(a.get_offsets(), b.get_offsets())
        np.testing.assert_allclose(a.get_sizes(), b.get_sizes())
    a, b = (
        part(one.histogram_ax_, "spread-0").get_data()[0]
        for one in (weighted, repeated)
    )
    np.testing.assert_allclose(a, b)


def test_a_classifier_is_judged_by_its_predict_proba(part):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where(X[:, 0] + rng.normal(size=400) > 0, "yes", "no")
    model = LogisticRegression().fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y)
    bins = reliability(y, model.predict_proba(X)[:, 1]).bins
    np.testing.assert_allclose(
        part(display.ax_, "points-0").get_offsets()[:, 0], bins.mean_score
    )
    assert names(display.ax_) == ["LogisticRegression"]
    both = ReliabilityDisplay.from_estimator({"a": model, "b": model}, X, y)
    assert names(both.ax_) == ["a", "b"]
    other = LogisticRegression().fit(X, y == "yes")
    with pytest.raises(
        ValueError, match="estimators must have the same classes_; 'a' has"
    ):
        ReliabilityDisplay.from_estimator({"a": model, "b": other}, X, y)
    with pytest.raises(TypeError, match="estimator must have predict_proba"):
        ReliabilityDisplay.from_estimator(object(), X, y)
    with pytest.raises(ValueError, match="name must be None"):
        ReliabilityDisplay.from_estimator({"a": model}, X, y, name="b")


def test_a_given_axes_is_drawn_in_and_its_room_divided(raw):
    figure, (left, right) = plt.subplots(1, 2)
    box = left.get_position()
    display = ReliabilityDisplay.from_predictions(*raw, ax=left)
    assert display.ax_ is left
    assert display.figure_ is figure
    above, below = left.get_position(), display.histogram_ax_.get_position()
    np.testing.assert_allclose(
        [above.y1, below.y0, above.width], [box.y1, box.y0, box.width]
    )
    assert below.y1 < above.y0
    alone = ReliabilityDisplay.from_predictions(*raw, ax=right, histogram=False)
    assert alone.histogram_ax_ is None
    assert right.get_xlabel() == "predicted probability"
    assert len(plt.get_fignums()) == 1


def test_axes_outside_any_grid_will_do_and_so_will_a_histogram_axes_of_ones_own(
    raw, three
):
    figure = Figure()
    ax = figure.add_axes((0.1, 0.1, 0.8, 0.8))
    display = ReliabilityDisplay.from_predictions(*raw, ax=ax)
    assert display.histogram_ax_.get_position().y1 < ax.get_position().y0
    own = figure.add_axes((0.1, 0.9, 0.8, 0.1))
    assert (
        ReliabilityDisplay.from_predictions(*raw, ax=ax, histogram=own).histogram_ax_
        is own
    )
    with pytest.raises(ValueError, match="ax must be one of a figure's subplots"):
        ReliabilityDisplay.from_predictions(*three, ax=ax, classes="all")
    with pytest.raises(TypeError, match="histogram must be True or False"):
        ReliabilityDisplay.from_predictions(*three, histogram=own, classes="all")
    figure.canvas.draw()


def test_a_single_class_is_drawn_without_a_spline_and_its_notes_hide_no_point(
    part, parts, words
):
    p = np.random.default_rng(0).uniform(size=50)
    display = ReliabilityDisplay.from_predictions(
        np.ones(50, int), p, corp=True, spline=True
    )
    assert not parts(display.ax_, "spline-0")
    assert np.all(part(display.ax_, "points-0").get_offsets()[:, 1] == 1.0)
    assert not any("spline" in name for name in names(display.ax_))
    assert "more often" not in words(display.ax_)


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_tiny_and_tied_data_are_drawn(scale, part):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=30).round(1)
    display = ReliabilityDisplay.from_predictions(
        rng.random(30) < p, p, scale=scale, corp=True, spline=True
    )
    assert len(part(display.ax_, "points-0").get_offsets()) <= 10
    constant = ReliabilityDisplay.from_predictions(
        [0, 1, 1], [0.5, 0.5, 0.5], scale=scale
    )
    np.testing.assert_allclose(
        part(constant.ax_, "points-0").get_offsets(), [[0.5, 2 / 3]]
    )
    lonely = ReliabilityDisplay.from_predictions([1], [0.0], scale=scale)
    assert len(part(lonely.ax_, "points-0").get_offsets()) == 1


def test_a_diagram_from_data_alone_draws_what_one_from_predictions_does(raw, part):
    data, full = (
        reliability(*raw).plot(scale="logit"),
        ReliabilityDisplay.from_predictions(*raw, scale="logit"),
    )
    offsets = [part(one.ax_, "points-0").get_offsets() for one in (data, full)]
    np.testing.assert_array_equal(*offsets)


def test_options_and_sets_that_make_no_sense_are_refused(raw, three):
    y, p = raw
    with pytest.raises(
        ValueError, match="scale must be one of 'probability', 'logit'; got 'log'"
    ):
        ReliabilityDisplay.from_predictions(y, p, scale="log")
    with pytest.raises(ValueError, match="classes must be one of 'top', 'all'"):
        ReliabilityDisplay.from_predictions(y, p, classes="each")
    with pytest.raises(ValueError, match="probs must hold at least one set"):
        ReliabilityDisplay.from_predictions(y, {})
    with pytest.raises(ValueError, match="name must be None when probs is a mapping"):
        ReliabilityDisplay.from_predictions(y, {"a": p}, name="b")
    with pytest.raises(TypeError, match="names of probs must be a string; got 1"):
        ReliabilityDisplay.from_predictions(y, {1: p})
    with pytest.raises(
        ValueError, match="all sets must be of the same classes; 'b' is not"
    ):
        ReliabilityDisplay({"a": reliability(y, p), "b": reliability(*three)}).plot()


@pytest.mark.process
def test_matplotlib_is_loaded_by_the_first_plot_alone():
    code = (
        "import sys; from calspline import ReliabilityDisplay, reliability; import calspline.display; "
        "r = reliability([0, 1, 1], [0.2, 0.5, 0.9]); print('matplotlib' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )


@pytest.mark.process
def test_without_matplotlib_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None; from calspline import reliability\n"
        "try: reliability([0, 1, 1], [0.2, 0.5, 0.9]).plot()\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "pip install 'calspline[plot]'" in done.stdout
