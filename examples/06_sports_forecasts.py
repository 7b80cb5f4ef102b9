"""FiveThirtyEight's sports forecasts: whether teams given 70% won 70% of their games.

Published forecasts of basketball (NBA) and baseball (MLB) games, evaluated as they
are.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from calspline import ReliabilityDisplay, evaluate

SPORTS = {"Basketball": "538_nba_games", "Baseball": "538_mlb_games"}
folder = Path(os.environ.get("CALSPLINE_DATA", "../shared/data")) / "scores"
if not folder.is_dir():
    raise SystemExit(
        print(
            "The forecasts are not here; set CALSPLINE_DATA to the folder that has it"
        )
    )
games = {sport: dict(np.load(folder / f"{name}.npz")) for sport, name in SPORTS.items()}

figure, axes = plt.subplots(1, 2, figsize=(10.8, 6), layout="constrained")
for ax, (sport, data) in zip(axes, games.items(), strict=True):
    found, count = (
        evaluate(data["labels"], data["scores"]),
        f"{len(data['labels']):,} games",
    )
    p = found.calibration_p_value
    verdict = f"slope {found.calibration_slope:.2f}, " + (
        "p < 0.01" if p < 0.01 else f"p = {p:.2f}"
    )
    lost = (
        f"{found.calibration_log_loss:.4f} of {found.log_loss:.3f} nats "
        "lost to miscalibration"
    )
    print(f"{sport:<12}{count}, {verdict}, {lost}")

    ReliabilityDisplay.from_predictions(
        data["labels"], data["scores"], spline=True, ax=ax
    )
    ax.set_title(sport, loc="left", fontweight="bold", pad=24)
    ax.text(0, 1.02, f"{count}, {verdict}", transform=ax.transAxes, color="#5b6875")

figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
