"""scikit-learn: an over-confident and an under-confident model, and one wrapper.

``CalibratedClassifierCV`` is scikit-learn's, with a spline inside: change the import.
No row is set aside for it.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calspline import CalibratedClassifierCV, ReliabilityDisplay, evaluate

X, digits = load_digits(return_X_y=True)
odd = digits % 2 == 1
X, X_test, y, y_test = train_test_split(
    X, odd, test_size=0.5, random_state=0, stratify=odd
)

MODELS = {
    "Naive Bayes is over-confident": GaussianNB(var_smoothing=1e-4),
    "A random forest is under-confident": RandomForestClassifier(200, random_state=0),
}

figure, axes = plt.subplots(1, 2, figsize=(10.8, 6), layout="constrained")
for ax, (title, model) in zip(axes, MODELS.items(), strict=True):
    cv = (
        "oob" if isinstance(model, RandomForestClassifier) else 5
    )  # a forest has out-of-bag votes: no refits
    before = model.fit(X, y).predict_proba(X_test)[:, 1]
    after = CalibratedClassifierCV(model, cv=cv).fit(X, y).predict_proba(X_test)[:, 1]

    losses = [evaluate(y_test, probs).log_loss for probs in (before, after)]
    print(
        f"{type(model).__name__:<24}"
        f"log-loss {losses[0]:.3f} before, {losses[1]:.3f} after"
    )

    ReliabilityDisplay.from_predictions(
        y_test, {"before": before, "after": after}, strategy="uniform", n_bins=8, ax=ax
    )
    ax.set_title(title, loc="left", fontweight="bold", pad=24)
    ax.text(
        0,
        1.02,
        "log-loss {:.2f} to {:.2f}".format(*losses),
        transform=ax.transAxes,
        color="#5b6875",
    )

figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
