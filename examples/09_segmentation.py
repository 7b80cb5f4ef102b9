"""Segmentation in PyTorch: a class for every pixel, calibrated from batches.

Pixels of an image depend on each other, so images are groups; pixels without a label do
not count. Network and calibrator then are one module, from images to calibrated
probabilities.
"""

from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from calspline import SplineCalibrator, evaluate, sample_batches
from calspline.export import to_torch

NO_LABEL = 255
rng = np.random.default_rng(0)


def pictures(n, size=48):
    """Noisy pictures of three kinds of ground, with labels except at the border."""
    ground = gaussian_filter(rng.normal(size=(n, 3, size, size)), (0, 0, 5, 5)).argmax(
        axis=1
    )
    colours = np.array([[0.2, 0.6, 0.3], [0.7, 0.6, 0.4], [0.2, 0.4, 0.7]])
    images = colours[ground].transpose(0, 3, 1, 2) + rng.normal(
        0, 0.45, (n, 3, size, size)
    )
    ground[:, :2] = NO_LABEL
    return torch.tensor(images, dtype=torch.float32), torch.tensor(ground)


def train(images, labels, epochs=200):
    """A small network, trained for too long on too few pictures."""
    from torch import nn

    layers = (
        nn.Conv2d(3, 32, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2),
        nn.ReLU(),
    )
    network = nn.Sequential(*layers, nn.Conv2d(32, 3, 1))
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(epochs):
        optimiser.zero_grad()
        nn.functional.cross_entropy(
            network(images), labels, ignore_index=NO_LABEL
        ).backward()
        optimiser.step()
    return network.eval().requires_grad_(False)


if not find_spec("torch"):
    raise SystemExit(print("PyTorch is not installed: pip install torch"))

import torch  # noqa: E402

torch.manual_seed(0)
torch.set_num_threads(1)
network = train(*pictures(4))

batches = (
    (network(images), labels) for images, labels in (pictures(8) for _ in range(8))
)
scores, y, image = sample_batches(
    batches, dim=1, ignore_index=NO_LABEL, max_rows=20_000
)
calibrator = SplineCalibrator().fit(scores, y, groups=image)
print(f"{len(y)} pixels are worth {calibrator.n_effective_:.0f} independent ones")
model = torch.nn.Sequential(network, to_torch(calibrator, dim=1, dtype=torch.float32))

images, labels = pictures(30)
counts = labels.numpy() != NO_LABEL
answers = {
    "before": torch.softmax(network(images), dim=1).numpy(),
    "after": model(images).numpy(),
}
judged = {
    name: evaluate(
        labels.numpy()[counts], p.transpose(0, 2, 3, 1)[counts].astype(float)
    )
    for name, p in answers.items()
}
print(
    f"log-loss {judged['before'].log_loss:.3f} before, "
    f"{judged['after'].log_loss:.3f} after"
)
for name, e in judged.items():
    print(f"{name}: confidence {e.mean_probability:.3f}, accuracy {e.base_rate:.3f}")

figure, axes = plt.subplots(1, 4, figsize=(10, 3), layout="constrained")
shown = (
    images[0].permute(1, 2, 0).clip(0, 1),
    labels[0].where(labels[0] != NO_LABEL, -1),
)
for ax, what, title in zip(axes, shown, ["picture", "truth"], strict=False):
    ax.imshow(what)
    ax.set_title(title)
for ax, (name, p) in zip(axes[2:], answers.items(), strict=True):
    drawn = ax.imshow(p[0].max(axis=0), vmin=1 / 3, vmax=1, cmap="magma")
    ax.set_title(f"confidence {name}")
for ax in axes:
    ax.set_axis_off()
figure.colorbar(drawn, ax=axes)
plt.savefig(Path(__file__).with_suffix(".png"), dpi=110)
