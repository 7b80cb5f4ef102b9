"""``--group``: rows of a file that belong together."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from calspline import SplineCalibrator, compare, evaluate, load
from calspline.cli import main


@pytest.fixture
def games(tmp_path):
    rng = np.random.default_rng(0)
    game = np.repeat(np.arange(60), 20)
    u = 1.5 * rng.normal(size=60)[game]
    won = (rng.random(60)[game] < expit(u)).astype(int)
    p = expit(u + 0.02 * rng.normal(size=len(game)))
    frame = pd.DataFrame(
        {
            "score": p,
            "label": won,
            "game": [f"game {g}" for g in game],
            "kind": game % 3,
        }
    )
    q = np.column_stack([p, (1 - p) / 2, (1 - p) / 2])
    frame = frame.assign(p_0=q[:, 0], p_1=q[:, 1], p_2=q[:, 2], other=p**1.2)
    frame.to_csv(tmp_path / "games.csv", index=False)
    return frame, str(tmp_path / "games.csv"), tmp_path


def test_fit_counts_rows_of_a_group_together(games, capsys):
    frame, path, folder = games
    assert (
        main(
            [
                "fit",
                path,
                "--score",
                "score",
                "--group",
                "game",
                "-o",
                str(folder / "m.json"),
            ]
        )
        == 0
    )
    wanted = SplineCalibrator().fit(
        frame["score"], frame["label"], groups=frame["game"]
    )
    found = load(folder / "m.json")
    assert found.n_effective_ == pytest.approx(wanted.n_effective_)
    np.testing.assert_allclose(
        found.calibrate(frame["score"]), wanted.calibrate(frame["score"]), atol=1e-9
    )
    said = capsys.readouterr().out
    assert (
        f"rows of the same game are dependent: effective sample size {wanted.n_effective_:,.0f}"
        in said
    )
    assert "cross-validated in 5 folds" in said


def test_fit_of_many_rows_leaves_them_in_the_engine(games, capsys, monkeypatch):
    frame, path, folder = games
    monkeypatch.setattr("calspline.cli.fit.MAX_TO_FOLD", 100)
    options = [
        "--score",
        "score",
        "--group",
        "game",
        "--json",
        "-o",
        str(folder / "m.json"),
    ]
    assert main(["fit", path, *options]) == 0
    said = json.loads(capsys.readouterr().out)
    wanted = SplineCalibrator().fit(
        frame["score"], frame["label"], groups=frame["game"]
    )
    assert (said["group"], said["n_effective"]) == (
        "game",
        pytest.approx(wanted.n_effective_),
    )
    assert said["judged"] == "in-sample"


def test_fit_of_three_classes_takes_groups(games):
    frame, path, folder = games
    scores = ["p_0", "p_1", "p_2"]
    options = [
        "--score",
        ",".join(scores),
        "--label",
        "kind",
        "--group",
        "game",
        "-o",
        str(folder / "m.json"),
    ]
    assert main(["fit", path, *options]) == 0
    wanted = SplineCalibrator().fit(
        frame[scores].to_numpy(), frame["kind"], groups=frame["game"]
    )
    assert load(folder / "m.json").n_effective_ == pytest.approx(wanted.n_effective_)


def test_evaluate_and_compare_judge_by_group(games, capsys):
    frame, path, _ = games
    assert (
        main(["evaluate", path, "--score", "score", "--group", "game", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    wanted = evaluate(frame["label"], frame["score"], groups=frame["game"])
    assert found["calibration_p_value"] == pytest.approx(wanted.calibration_p_value)
    assert found["n_groups"] == 60
    assert main(["evaluate", path, "--score", "score", "--group", "game"]) == 0
    assert "1,200 rows in 60 groups" in capsys.readouterr().out
    assert main(["compare", path, "--score", "score,other", "--group", "game"]) == 0
    out = capsys.readouterr().out
    sets = {"score": frame["score"], "other": frame["other"]}
    found = compare(frame["label"], sets, groups=frame["game"])
    assert found.recommendation in out
    assert found.grouping in out


def test_report_says_how_many_groups_there_are(games, capsys):
    _, path, folder = games
    where = folder / "report.html"
    assert (
        main(["report", path, "--score", "score", "--group", "game", "-o", str(where)])
        == 0
    )
    assert "1,200 rows in 60 groups" in where.read_text()


def test_bad_groups_exit_with_2(games, capsys):
    frame, path, folder = games
    frame.assign(game=frame["game"].where(frame.index != 4)).to_csv(
        folder / "gap.csv", index=False
    )
    frame.assign(game="one").to_csv(folder / "one.csv", index=False)
    for arguments, message in (
        ([path, "--group", "gam"], "--group: there is no column 'gam'"),
        (
            [str(folder / "gap.csv"), "--group", "game"],
            "column 'game' of .*gap.csv has missing values: 1 in all, in row 5",
        ),
        (
            [str(folder / "one.csv"), "--group", "game"],
            "at least two groups that count",
        ),
        (
            [path, "--group", "game", "--method", "isotonic"],
            "--group is for --method spline",
        ),
    ):
        assert (
            main(["fit", *arguments, "--score", "score", "-o", str(folder / "m.json")])
            == 2
        )
        said = capsys.readouterr().err
        assert len(said.strip().splitlines()) == 1
        assert re.search(message, said)
