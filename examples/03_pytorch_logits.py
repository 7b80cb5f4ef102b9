"""PyTorch: an over-fitted network is over-confident on new rows.

Its logits go into the calibrator as they are, a column for each class. Temperature
scaling is the usual remedy; the spline's model contains it.
"""

from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from calspline import (
    ReliabilityDisplay,
    SplineCalibrator,
    TemperatureCalibrator,
    evaluate,
)


def train(X, y, epochs=250):
    """Function from rows to logits: a small network, trained for too long."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = (
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 128),
        torch.nn.ReLU(),
    )
    network = torch.nn.Sequential(*layers, torch.nn.Linear(128, 10))
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    rows, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    for _ in range(epochs):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(rows), labels).backward()
        optimiser.step()

    def logits(new):
        with torch.no_grad():
            return network(torch.tensor(new, dtype=torch.float32)).double().numpy()

    return logits


if not find_spec("torch"):
    raise SystemExit(print("PyTorch is not installed: pip install torch"))

rng = np.random.default_rng(0)
X, y = load_digits(return_X_y=True)
X = X / 16 + rng.normal(0, 0.3, X.shape)  # a bad camera
X, X_rest, y, y_rest = train_test_split(
    X, y, test_size=0.65, random_state=0, stratify=y
)
X_cal, X_test, y_cal, y_test = train_test_split(
    X_rest, y_rest, test_size=0.5, random_state=0, stratify=y_rest
)

logits = train(X, y)
known, new = logits(X_cal), logits(X_test)

answers = {"network": softmax(new, axis=1)}
for name, calibrator in {
    "temperature": TemperatureCalibrator(),
    "calspline": SplineCalibrator(),
}.items():
    answers[name] = calibrator.fit(known, y_cal).predict_proba(new)
losses = {name: evaluate(y_test, probs).log_loss for name, probs in answers.items()}
for name, loss in losses.items():
    accuracy = np.mean(answers[name].argmax(axis=1) == y_test)
    print(f"{name:<12}log-loss {loss:.3f}, accuracy {accuracy:.1%}")

shown = {name: answers[name] for name in ("network", "calspline")}
display = ReliabilityDisplay.from_predictions(
    y_test, shown, strategy="uniform", n_bins=8
)
display.ax_.set_title("A network's logits", loc="left", fontweight="bold", pad=24)
says = f"log-loss {losses['network']:.2f} to {losses['calspline']:.2f}"
display.ax_.text(0, 1.02, says, transform=display.ax_.transAxes, color="#5b6875")
plt.savefig(Path(__file__).with_suffix(".png"), dpi=110)
