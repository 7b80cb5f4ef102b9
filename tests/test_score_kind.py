"""One rule for what scores are, for arrays and for engines."""

import numpy as np
import polars as pl
import pytest

from calspline import SplineCalibrator, fit_frame
from calspline._input.hints import FEWEST_FEATURE_ROWS
from calspline._input.scores import GivenScores, decide_kind

RNG = np.random.default_rng(0)
P = RNG.uniform(size=200)
LOGITS = RNG.normal(size=(200, 3))
ROWS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
Y = RNG.random(200) < P
K = np.arange(200) % 3

KINDS = {
    "probabilities": (P, Y, "auto", "probability"),
    "both columns": (np.column_stack([1 - P, P]), Y, "auto", "probability"),
    "margins": (4 * P - 2, Y, "auto", "margin"),
    "margins inside": (P, Y, "identity", "margin"),
    "small margins": ((P - 0.5) / 100, Y, "auto", "margin"),
    "two margins": (np.column_stack([-P, 3 * P]), Y, "auto", "difference"),
    "logits": (LOGITS, K, "auto", "margin"),
    "three columns": (ROWS, K, "auto", "probability"),
    "three columns as they are": (ROWS, K, "identity", "probability"),
}


def lazy(scores, y):
    columns = {f"p_{j}": part for j, part in enumerate(np.atleast_2d(scores.T))}
    frame = pl.DataFrame(columns | {"y": y.astype(int)}).lazy()
    return frame, list(columns) if len(columns) > 1 else "p_0"


@pytest.mark.filterwarnings("ignore:the columns of score:UserWarning")
@pytest.mark.parametrize("case", KINDS)
def test_arrays_and_engines_agree_on_the_kind_of_scores(case):
    scores, y, scale, name = KINDS[case]
    options = {"scale": scale, "multiclass": "ovr"}
    of_arrays = SplineCalibrator(**options).fit(scores, y.astype(int)).model_.kind
    frame, score = lazy(scores, y)
    if score == "p_0":
        frame = frame.rename({"p_0": "score"})
        score = "score"
    of_engine = fit_frame(frame, score=score, label="y", **options).model_.kind
    assert of_arrays.name == of_engine.name == name


ERRORS = {
    "a few outside": (
        np.where(np.arange(200) == 7, 1.2, P),
        r"probabilities in \[0, 1",
    ),
    "rows of shares times two": (2.0 * ROWS, "must sum to one .*Divide each row"),
    "one row times two": (
        np.where(np.arange(200)[:, None] == 7, 2.0 * ROWS, ROWS),
        "must sum to one .*1 of 200 rows do not. Divide each row",
    ),
    "percentages": (100.0 * ROWS, "not percentages; divide them by 100"),
    "too large": (1e301 * LOGITS, r"at most 1e\+300 in size"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_arrays_and_engines_refuse_the_same_scores(case):
    scores, message = ERRORS[case]
    y = Y.astype(int) if scores.ndim == 1 else K
    with pytest.raises(ValueError, match=message):
        SplineCalibrator().fit(scores, y)
    frame, score = lazy(scores, y)
    if score == "p_0":
        frame = frame.rename({"p_0": "score"})
        score = "score"
    with pytest.raises(ValueError, match=message):
        fit_frame(frame, score=score, label="y", multiclass="ovr")


def test_logits_with_a_common_sum_of_zero_stay_margins():
    centered = LOGITS - LOGITS.mean(axis=1, keepdims=True)
    assert decide_kind(GivenScores(centered)).name == "margin"


@pytest.mark.filterwarnings("ignore::calspline._input.hints.ClassOrderWarning")
@pytest.mark.parametrize("m", [3, 4])
def test_features_of_two_classes_cause_a_warning(m):
    features = np.random.default_rng(1).normal(size=(300, m))
    y = (features[:, 0] > 0).astype(int)
    with pytest.warns(UserWarning, match="Features cannot be calibrated"):
        SplineCalibrator().fit(features, y)


@pytest.mark.parametrize("n", [FEWEST_FEATURE_ROWS - 1, 300])
def test_logits_of_a_class_that_is_hardly_expected_cause_none(n):
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(n, 3)) - [0.0, 0.0, 5.0]
    SplineCalibrator().fit(logits, rng.integers(0, 2, n))
