"""SUPPORT2: estimated survival of very ill patients, by physicians and by a model.

Both are evaluated, and the physicians again after a calibrator was fitted to other
patients.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from calspline import ReliabilityDisplay, SplineCalibrator, evaluate

folder = Path(os.environ.get("CALSPLINE_DATA", "../shared/data")) / "scores"
if not folder.is_dir():
    raise SystemExit(
        print(
            "The estimates are not here; set CALSPLINE_DATA to the folder that has it"
        )
    )
said, model = (
    dict(np.load(folder / f"support2_{name}.npz"))
    for name in ("physician_prg2m", "model_surv2m")
)

half = np.arange(len(said["labels"])) % 2 == 0
calibrator = SplineCalibrator().fit(said["scores"][half], said["labels"][half])
sets = {
    "Physicians": (said["labels"], said["scores"]),
    "Physicians, calibrated": (
        said["labels"][~half],
        calibrator.calibrate(said["scores"][~half]),
    ),
    "A statistical model": (model["labels"], model["scores"]),
}
figure, axes = plt.subplots(1, 3, figsize=(15, 5.8), layout="constrained")
for ax, color, (name, (lived, probs)) in zip(
    axes, ("#d55e00", "#0072b2", "#009e73"), sets.items(), strict=True
):
    found = evaluate(lived, probs)
    lost = f"{found.calibration_log_loss:.3f} of it miscalibration"
    print(
        f"{name:<24}{len(lived):,} patients, log-loss {found.log_loss:.3f}, {lost}, "
        f"AUC {found.auc:.3f}"
    )

    ReliabilityDisplay.from_predictions(
        lived, probs, spline=True, legend=False, colors=[color], ax=ax
    )
    ax.set_title(name, loc="left", fontweight="bold", pad=24)
    ax.text(
        0,
        1.02,
        f"log-loss {found.log_loss:.2f}, {lost}",
        transform=ax.transAxes,
        color="#5b6875",
    )

figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
