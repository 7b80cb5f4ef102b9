"""``fit_frame`` with groups: the same fit in every engine."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from tests.engines.conftest import ENGINES

from calspline import SplineCalibrator, fit_frame


def rows(n_games=80, size=25, seed=0):
    rng = np.random.default_rng(seed)
    game = np.repeat(np.arange(n_games), size)
    u = 1.5 * rng.normal(size=n_games)[game]
    won = (rng.random(n_games)[game] < expit(u)).astype(int)
    p = expit(u + 0.3 * rng.normal(size=len(game)))
    p[:5], p[30:35] = 0.0, 1.0
    z = np.column_stack([u, rng.normal(size=len(u)), np.zeros(len(u))])
    q = softmax(z, axis=1)
    kind = np.array([rng.choice(3, p=row) for row in q[::size]])[game]
    frame = pd.DataFrame(
        {
            "p": p,
            "won": won,
            "game": [f"game {g}" for g in game],
            "w": rng.integers(0, 4, len(game)) * 1.0,
        }
    )
    return frame.assign(
        a=q[:, 0], b=q[:, 1], c=q[:, 2], kind=kind, number=game.astype(float)
    )


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_two_classes_are_fitted_as_in_arrays(engine):
    frame = rows()
    wanted = SplineCalibrator().fit(
        frame["p"], frame["won"], frame["w"], groups=frame["game"]
    )
    found = fit_frame(
        engine.make(frame), score="p", label="won", weight="w", group="game"
    )
    assert found.n_effective_ == pytest.approx(wanted.n_effective_, rel=1e-7)
    assert wanted.n_effective_ < 0.2 * frame["w"].sum()
    np.testing.assert_allclose(
        found.interval(frame["p"]), wanted.interval(frame["p"]), atol=1e-7
    )


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_three_classes_are_fitted_as_in_arrays(engine, multiclass):
    frame = rows()
    scores = frame[["a", "b", "c"]].to_numpy()
    wanted = SplineCalibrator(multiclass=multiclass).fit(
        scores, frame["kind"], groups=frame["number"]
    )
    options = {"score": ["a", "b", "c"], "label": "kind", "multiclass": multiclass}
    found = fit_frame(engine.make(frame), group="number", **options)
    assert found.n_effective_ == pytest.approx(wanted.n_effective_, rel=1e-6)
    np.testing.assert_allclose(
        found.predict_proba(scores), wanted.predict_proba(scores), atol=1e-6
    )


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_bad_groups_are_refused(engine):
    frame = rows(4, 10)
    missing = frame.assign(game=frame["game"].where(frame.index != 3))
    with pytest.raises(ValueError, match="found 1 of 40 in 'game'"):
        fit_frame(engine.make(missing), score="p", label="won", group="game")
    dropped = fit_frame(
        engine.make(missing), score="p", label="won", group="game", missing="drop"
    )
    assert dropped.histogram_.total == 39
    with pytest.raises(
        ValueError,
        match="group must have at least two groups that count; all rows of 'game'",
    ):
        fit_frame(
            engine.make(frame.assign(game="one")), score="p", label="won", group="game"
        )


def test_groups_of_one_row_change_nothing():
    frame = rows().assign(game=np.arange(2000))
    with_groups = fit_frame(frame, score="p", label="won", group="game")
    assert with_groups.to_dict() == fit_frame(frame, score="p", label="won").to_dict()


def test_the_column_has_to_be_there_and_folds_need_rows():
    frame = rows(4, 10)
    with pytest.raises(
        ValueError,
        match=r"group must be a column of frame; there is no 'gam'.*Did you mean 'game'",
    ):
        fit_frame(frame, score="p", label="won", group="gam")
    with pytest.raises(
        ValueError, match="smoothing must be \"reml\" or a number with group; got 'cv'"
    ):
        fit_frame(frame, score="p", label="won", group="game", smoothing="cv")
