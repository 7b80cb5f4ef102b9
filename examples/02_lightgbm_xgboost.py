"""LightGBM and XGBoost: boosters trained too long rank well but are over-confident.

The calibrator learns from rows that the booster was not trained on, and reads its
log-odds: what ``predict_proba`` rounds to 1 is still told apart there.
"""

from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from calspline import ReliabilityDisplay, SplineCalibrator, evaluate


def lightgbm_log_odds(X, y, *others):
    """Log-odds of other rows from a LightGBM model."""
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(n_estimators=200, random_state=0, n_jobs=1, verbose=-1).fit(
        X, y
    )
    return [model.predict(rows, raw_score=True) for rows in others]


def xgboost_log_odds(X, y, *others):
    """Log-odds of other rows from an XGBoost model."""
    from xgboost import XGBClassifier

    model = XGBClassifier(n_estimators=200, random_state=0, n_jobs=1).fit(X, y)
    return [model.predict(rows, output_margin=True) for rows in others]


BOOSTERS = {"LightGBM": lightgbm_log_odds, "XGBoost": xgboost_log_odds}
installed = {name: train for name, train in BOOSTERS.items() if find_spec(name.lower())}
for name in BOOSTERS.keys() - installed.keys():
    print(f"{name} is not installed: pip install {name.lower()}")
if not installed:
    raise SystemExit

X, y = make_classification(
    9_000,
    12,
    n_informative=8,
    flip_y=0.15,
    class_sep=0.8,
    weights=[0.7],
    random_state=0,
)
X, X_rest, y, y_rest = train_test_split(X, y, test_size=2 / 3, random_state=0)
X_cal, X_test, y_cal, y_test = train_test_split(
    X_rest, y_rest, test_size=0.5, random_state=0
)

figure, axes = plt.subplots(
    1,
    len(installed),
    figsize=(5.4 * len(installed), 6),
    layout="constrained",
    squeeze=False,
)
for ax, (name, train) in zip(axes.flat, installed.items(), strict=True):
    known, new = train(X, y, X_cal, X_test)
    calibrator = SplineCalibrator(scale="identity").fit(
        known, y_cal
    )  # log-odds are margins: any number
    before, after = 1 / (1 + np.exp(-new.astype(float))), calibrator.calibrate(new)

    losses = [evaluate(y_test, probs).log_loss for probs in (before, after)]
    print(f"{name:<10}log-loss {losses[0]:.3f} before, {losses[1]:.3f} after")

    ReliabilityDisplay.from_predictions(
        y_test, {"before": before, "after": after}, scale="logit", ax=ax
    )
    ax.set_title(name, loc="left", fontweight="bold", pad=24)
    ax.text(
        0,
        1.02,
        "log-loss {:.2f} to {:.2f}".format(*losses),
        transform=ax.transAxes,
        color="#5b6875",
    )

figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
