"""All cores for large arrays: the same results to the last bit, and as many threads as somebody said."""

import threading
import time

import numpy as np
import pytest

import calspline
from calspline import BetaCalibrator, ClippingCalibrator, ScoreHistogram, SplineCalibrator, TemperatureCalibrator
from calspline.arrays import (
    MIN_THREADED_SIZE,
    Workspace,
    available,
    blocks,
    filled,
    map_blocks,
)

ROWS = 3 * MIN_THREADED_SIZE + 17
COUNTS = (1, 2, 3)


def two_classes(kind):
    rng = np.random.default_rng(0)
    u = rng.normal(-1.0, 2.0, ROWS)
    if kind == "ever wider":  # so that rows leave what was made for those before them
        u *= np.linspace(0.1, 4.0, ROWS) ** 2
    y = rng.random(ROWS) < 1.0 / (1.0 + np.exp(-0.7 * u))
    if kind == "margins":
        return u, y
    p = 1.0 / (1.0 + np.exp(-u))
    return (rng.binomial(1000, p) / 1000.0 if kind == "votes" else p), y


def three_classes(rows=ROWS, classes=3):
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(rows, classes))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return p, (p.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)


def assert_the_same_for_any_number(compute):
    """Bit by bit, NaN included."""
    found = []
    for n in COUNTS:
        with calspline.threads(n):
            found.append([np.asarray(part).tobytes() for part in compute()])
    assert all(parts == found[0] for parts in found)


@pytest.mark.parametrize("kind", ["smooth", "votes", "margins", "ever wider"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_histogram_is_the_same_to_the_last_bit(kind, weighted):
    scores, y = two_classes(kind)
    weight = np.random.default_rng(2).integers(0, 3, ROWS) if weighted else None

    def compute():
        histogram = ScoreHistogram.from_scores(scores, y, weight)
        return histogram.locations, histogram.positives, histogram.negatives, histogram.cells, histogram.level or 0

    assert_the_same_for_any_number(compute)


@pytest.mark.parametrize("kind", ["smooth", "votes", "margins"])
def test_fits_and_what_comes_of_them_are_the_same_to_the_last_bit(kind):
    scores, y = two_classes(kind)

    def compute():
        cal = SplineCalibrator().fit(scores, y)
        pair = np.column_stack([1.0 - scores, scores]) if kind != "margins" else scores
        return cal.curves_[0].coefficients, cal.calibrate(pair), cal.predict_proba(scores), cal.interval(scores)

    assert_the_same_for_any_number(compute)


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", [BetaCalibrator(), ClippingCalibrator(), TemperatureCalibrator()], ids=repr)
def test_other_methods_are_the_same_to_the_last_bit(calibrator):
    (p, y), (many, labels) = two_classes("smooth"), three_classes()
    assert_the_same_for_any_number(
        lambda: (calibrator.fit(p, y).calibrate(p), calibrator.fit(many, labels).predict_proba(many))
    )


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "classes"), [(ROWS, 3), (1200, 70)])
@pytest.mark.parametrize("margins", [False, True])
def test_one_against_the_rest_is_the_same_to_the_last_bit(rows, classes, margins):
    p, y = three_classes(rows, classes)
    scores = np.log(p) + 3.0 if margins else p
    assert_the_same_for_any_number(lambda: [SplineCalibrator(multiclass="ovr").fit(scores, y).predict_proba(scores)])


def test_segments_are_the_same_to_the_last_bit():
    p, y = two_classes("smooth")
    by = np.arange(ROWS) % 3

    def compute():
        cal = SplineCalibrator().fit(p, y, by=by)
        return cal.calibrate(p, by=by), cal.interval(p, by=by)

    assert_the_same_for_any_number(compute)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_blocks_are_shared_out_over_as_many_threads_as_asked_for(count):
    met = threading.Barrier(count, timeout=600)  # nobody gets on before all are here

    def wait(block):
        met.wait()
        return threading.get_ident()

    with calspline.threads(count):
        assert len(set(map_blocks(wait, range(count), MIN_THREADED_SIZE))) == count


def test_few_values_stay_in_the_thread_that_has_them():
    with calspline.threads(4):
        assert set(map_blocks(lambda _: threading.get_ident(), range(4), MIN_THREADED_SIZE - 1)) == {
            threading.get_ident()
        }


def test_blocks_come_in_their_order_however_long_they_take():
    def slow(i):
        time.sleep(0.02 if i == 0 else 0.0)
        return i

    with calspline.threads(3):
        assert list(map_blocks(slow, range(9), MIN_THREADED_SIZE)) == list(range(9))


def test_threads_do_not_share_out_their_blocks_again():
    with calspline.threads(2):
        assert set(map_blocks(lambda _: available(), range(4), MIN_THREADED_SIZE)) == {1}


def test_what_numpy_is_told_of_errors_holds_in_threads():
    with np.errstate(divide="ignore"), calspline.threads(2):
        assert list(map_blocks(lambda _: float(np.log(np.zeros(1))[0]), range(2), MIN_THREADED_SIZE)) == [-np.inf] * 2


def test_an_error_in_a_thread_is_that_of_the_call():
    with calspline.threads(2), pytest.raises(ZeroDivisionError):
        list(map_blocks(lambda i: 1 // i, range(3), MIN_THREADED_SIZE))


def test_blocks_do_not_depend_on_the_number_of_threads_and_hold_all_rows():
    seen = []

    def note(rows):
        seen.append(rows)
        return 0.0

    for count in (1, 2):
        seen.clear()
        with calspline.threads(count):
            filled(np.empty(ROWS), note)
        rows = sorted((one.start, one.stop) for one in seen)
        assert [start for start, _ in rows[1:]] == [stop for _, stop in rows[:-1]]
        assert (rows[0][0], rows[-1][1], len(rows)) == (0, ROWS, 7)


def test_a_block_of_a_wide_matrix_has_few_rows():
    widest = max(rows.stop - rows.start for rows in blocks(10_000, 1000))
    seen = []
    filled(np.empty(10_000), lambda rows: seen.append(rows.stop - rows.start) or 0.0, columns=1000)
    assert max(seen) == widest == 65


def test_a_bad_row_is_named_wherever_it_is():
    p, y = two_classes("smooth")
    labels = y.astype(int)
    labels[ROWS - 3] = 2
    with calspline.threads(2), pytest.raises(ValueError, match=f"row {ROWS - 3} is"):
        ScoreHistogram.from_scores(p, labels, classes=[0, 1])
    p[ROWS - 5] = np.nan
    with calspline.threads(2), pytest.raises(ValueError, match=f"row {ROWS - 5} is nan"):
        ScoreHistogram.from_scores(p, y)


class TestHowMany:
    @pytest.fixture(autouse=True)
    def no_variable(self, monkeypatch):
        monkeypatch.delenv("CALSPLINE_THREADS", raising=False)

    def test_the_context_says_and_ends(self):
        before = available()
        with calspline.threads(5):
            assert available() == 5
            with calspline.threads(2):
                assert available() == 2
            assert available() == 5
        assert available() == before

    def test_the_variable_says_unless_the_context_does(self, monkeypatch):
        monkeypatch.setenv("CALSPLINE_THREADS", "6")
        assert available() == 6
        with calspline.threads(2):
            assert available() == 2
        monkeypatch.setenv("CALSPLINE_THREADS", "")
        assert available() == 1

    @pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "two", None])
    def test_anything_else_is_an_error(self, wrong):
        with pytest.raises(ValueError, match="n must be a whole number of threads, at least 1; got"):
            calspline.threads(wrong)

    def test_a_wrong_variable_is_an_error_that_names_it(self, monkeypatch):
        monkeypatch.setenv("CALSPLINE_THREADS", "all")
        with pytest.raises(
            ValueError, match="CALSPLINE_THREADS must be a whole number of threads, at least 1; got 'all'"
        ):
            available()


def test_scores_that_are_exact_at_first_and_too_many_later_are_those_of_one_grid():
    rng = np.random.default_rng(3)
    scores = np.concatenate([np.full(2 * 32768, 0.25), rng.random(2 * 32768)])
    y = rng.random(len(scores)) < scores
    turned = ScoreHistogram.from_scores(scores[::-1], y[::-1])
    assert_the_same_for_any_number(lambda: [ScoreHistogram.from_scores(scores, y).positives])
    np.testing.assert_allclose(ScoreHistogram.from_scores(scores, y).locations, turned.locations, atol=1e-9)
    np.testing.assert_array_equal(ScoreHistogram.from_scores(scores, y).positives, turned.positives)


def test_knots_within_the_scores_leave_cells_outside_them():
    p, y = two_classes("smooth")
    cal = SplineCalibrator(knots=[0.2, 0.4, 0.6, 0.8]).fit(p[:20_000], y[:20_000])
    direct = SplineCalibrator(knots=[0.2, 0.4, 0.6, 0.8], smoothing="cv").fit(p[:20_000], y[:20_000])
    np.testing.assert_allclose(cal.calibrate([0.05, 0.5, 0.95]), direct.calibrate([0.05, 0.5, 0.95]), atol=0.02)


def test_arrays_to_work_in_are_used_again_but_not_by_two_at_a_time():
    parts = list(blocks(100, 1000))
    workspace = Workspace(parts, 1000, np.float64, np.int32)
    with workspace.taken(parts[0]) as (one, whole), workspace.taken(parts[-1]) as (two, _):
        assert one.shape == (65, 1000)
        assert two.shape == (35, 1000)
        assert whole.dtype == np.int32
        assert not np.shares_memory(one, two)
    with workspace.taken(parts[0]) as (again, _):
        assert np.shares_memory(again, one) or np.shares_memory(again, two)
