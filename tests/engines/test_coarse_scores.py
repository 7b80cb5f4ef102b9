"""Scores that many rows have in common, such as a small tree's, in a structured fit to more rows than a sample has."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from calspline import SplineCalibrator, fit_frame
from calspline.engines import aggregate

NAMES = ["a", "b", "c"]


def tree(n_leaves, n=20_000, share=1.0, seed=0):
    """Leaves with over-confident scores; a share of rows is in leaves, the others have scores of their own."""
    rng = np.random.default_rng(seed)
    leaves = rng.dirichlet([0.7, 0.7, 0.7], n_leaves)
    truth = leaves[rng.integers(0, n_leaves, n)]
    own = rng.random(n) > share
    truth[own] = rng.dirichlet([0.7, 0.7, 0.7], own.sum())
    y = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2)
    scores = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    return scores, y


def as_frame(scores, y, w=None):
    frame = pd.DataFrame(scores, columns=NAMES).assign(kind=np.array(NAMES)[y])
    return frame if w is None else frame.assign(w=w)


@pytest.mark.parametrize(
    "make",
    [lambda frame: frame, pl.from_pandas, lambda frame: pl.from_pandas(frame).lazy()],
)
@pytest.mark.parametrize("n_leaves", [12, 60])
def test_leaves_are_fitted_by_their_counts(make, n_leaves, monkeypatch):
    monkeypatch.setattr(aggregate, "MAX_SAMPLE", 2000)
    scores, y = tree(n_leaves)
    w = np.random.default_rng(1).integers(0, 3, len(y))
    fitted = fit_frame(
        make(as_frame(scores, y, w)), score=NAMES, label="kind", weight="w"
    )
    whole = SplineCalibrator().fit(scores, y, w)
    np.testing.assert_allclose(
        fitted.predict_proba(scores), whole.predict_proba(scores), rtol=0, atol=1e-6
    )


def test_a_database_groups_them_too(monkeypatch):
    monkeypatch.setattr(aggregate, "MAX_SAMPLE", 2000)
    scores, y = tree(30)
    relation = duckdb.from_arrow(pl.from_pandas(as_frame(scores, y)).to_arrow())
    fitted, whole = (
        fit_frame(relation, score=NAMES, label="kind"),
        SplineCalibrator().fit(scores, y),
    )
    np.testing.assert_allclose(
        fitted.predict_proba(scores), whole.predict_proba(scores), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_leaves_among_other_scores_have_their_share_of_the_sample(share, monkeypatch):
    monkeypatch.setattr(aggregate, "MAX_SAMPLE", 1500)
    scores, y = tree(12, share=share)
    frame = as_frame(scores, y)
    fits = [
        fit_frame(each, score=NAMES, label="kind")
        for each in (duckdb.from_df(frame), pl.from_pandas(frame).lazy())
    ]
    got = [fit.predict_proba(scores) for fit in fits]
    np.testing.assert_allclose(got[0], got[1], rtol=0, atol=1e-9)
    truth = np.sqrt(scores) / np.sqrt(scores).sum(axis=1, keepdims=True)
    assert np.abs(got[0] - truth).mean() < 0.03


def test_the_weights_of_a_sample_are_those_of_the_rows_it_stands_for():
    """A group that is sure to be taken counts by its share of rows; others count, on average, by theirs."""
    count = np.array([1, 5, 400, 4000])
    weights = aggregate.sample_weights(2.0 * count, count, 0.01)
    chance = np.minimum(count * 0.01, 1.0)
    np.testing.assert_allclose(weights * chance, 0.01 * 2.0 * count)
    np.testing.assert_allclose(weights, [2.0, 2.0, 8.0, 80.0])


@pytest.mark.parametrize(
    "make", [duckdb.from_df, lambda frame: pl.from_pandas(frame).lazy()]
)
def test_groups_among_leaves_are_refused_and_not_forgotten(make, monkeypatch):
    monkeypatch.setattr(aggregate, "MAX_SAMPLE", 2000)
    frame = as_frame(*tree(12)).assign(g=np.arange(20_000) % 500)
    with pytest.raises(
        ValueError,
        match='multiclass must be "ovr" with group where more than 2,000 rows have few',
    ):
        fit_frame(make(frame), score=NAMES, label="kind", group="g")
    fitted = fit_frame(
        make(frame), score=NAMES, label="kind", group="g", multiclass="ovr"
    )
    assert fitted.classes_.tolist() == NAMES
