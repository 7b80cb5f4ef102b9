"""The small convolutional network of Keras's ``cifar10_cnn.py``, in PyTorch, trained in parts that can be resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.optim.swa_utils import AveragedModel

from benchmarks.paper.cifar_images import Labels, Pixels

SHIFT = 3
"""Pixels that an image may move: a tenth of its side, as in the example."""


class Settings(NamedTuple):
    """How to train; the defaults are those of the example."""

    batch: int = 32
    rate: float = 1e-4
    augment: bool = True
    adam: bool = False
    average: int = 1
    """Steps over which the weights that predict are averaged; 1 takes those of the last step."""

    @property
    def name(self) -> str:
        """Fit for a folder."""
        said = (
            f"batch-{self.batch}-rate-{self.rate:g}"
            + "-plain" * (not self.augment)
            + "-adam" * self.adam
        )
        return said + f"-average-{self.average}" * (self.average > 1)

    def optimiser(self, model: Any) -> Any:
        """Keras's RMSprop, or Adam, which stays calm at rates ten times as high."""
        if self.adam:
            return torch.optim.Adam(model.parameters(), lr=self.rate, fused=True)
        return torch.optim.RMSprop(
            model.parameters(), lr=self.rate, alpha=0.9, eps=1e-7
        )

    def mean(self, mean: Any, weights: Any, steps: Any) -> Any:
        """The weights of all steps so far, after that of the last ones, older ones fading."""
        return torch.lerp(mean, weights, 1.0 / min(int(steps) + 1, self.average))


def use_threads(count: int | None) -> None:
    """Hold torch to so many threads, or let it choose."""
    if count is not None:
        torch.set_num_threads(count)


def network() -> Any:
    """Two blocks of two 3x3 convolutions, with 32 and 64 filters, and a dense layer of 512."""
    layers: list[Any] = []
    for before, filters in ((3, 32), (32, 64)):
        layers += [
            nn.Conv2d(before, filters, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(filters, filters, 3),
            nn.ReLU(),
        ]
        layers += [nn.MaxPool2d(2), nn.Dropout(0.25)]
    layers += [
        nn.Flatten(),
        nn.Linear(64 * 6 * 6, 512),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(512, 10),
    ]
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):  # as Keras begins
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class Training:
    """A network on its way: epochs done, weights and the state of the optimiser, kept in a file."""

    def __init__(self, path: Path, settings: Settings, seed: int) -> None:
        self.path, self.settings, self.seed = path, settings, seed
        torch.manual_seed(seed)
        self.model = network().to(
            memory_format=torch.channels_last
        )  # a fifth faster on a processor
        self.optimiser = settings.optimiser(self.model)
        self.averaged: Any = AveragedModel(self.model, avg_fn=settings.mean)
        self.epoch = 0
        if path.is_file():
            state = torch.load(path, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.averaged.load_state_dict(state["averaged"])
            self.epoch = int(state["epoch"])

    def save(self) -> None:
        """Write the state whole, or not at all."""
        parts = {
            "model": self.model,
            "optimiser": self.optimiser,
            "averaged": self.averaged,
        }
        state = {name: part.state_dict() for name, part in parts.items()} | {
            "epoch": self.epoch
        }
        unfinished = self.path.with_suffix(".part")
        torch.save(state, unfinished)
        unfinished.replace(self.path)

    def train(self, X: Pixels, y: Labels, until: int, tell: Callable[[], None]) -> None:
        """Train up to an epoch; each begins from a seed of its own, so that a resumed run is the same run."""
        labels = torch.from_numpy(y.astype(np.int64))
        while self.epoch < until:
            self.model.train()
            torch.manual_seed(1_000_003 * self.seed + self.epoch)
            for rows in torch.randperm(len(X)).split(self.settings.batch):
                images = _scaled(X[rows.numpy()])
                if self.settings.augment:
                    images = _moved(images)
                loss = nn.functional.cross_entropy(self.model(images), labels[rows])
                self.optimiser.zero_grad()
                loss.backward()
                self.optimiser.step()
                self.averaged.update_parameters(self.model)
            self.epoch += 1
            tell()

    def probabilities(self, X: Pixels) -> NDArray[np.float32]:
        """Softmax of all images."""
        self.averaged.eval()
        with torch.no_grad():
            parts = [
                torch.softmax(self.averaged(_scaled(X[i : i + 500])), dim=1)
                for i in range(0, len(X), 500)
            ]
        return np.asarray(torch.cat(parts).numpy())


def _scaled(X: Pixels) -> Any:
    return (torch.from_numpy(X).float() / 255.0).contiguous(
        memory_format=torch.channels_last
    )


def _moved(images: Any) -> Any:
    """Each image mirrored or not, and moved by a few pixels, its edges drawn out."""
    n, _, height, width = images.shape
    mirrored = torch.rand(n) < 0.5
    images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
    padded = nn.functional.pad(images, (SHIFT, SHIFT, SHIFT, SHIFT), mode="replicate")
    down, right = torch.randint(0, 2 * SHIFT + 1, (2, n))
    rows = (down[:, None] + torch.arange(height))[:, None, :, None]
    columns = (right[:, None] + torch.arange(width))[:, None, None, :]
    return padded[
        torch.arange(n)[:, None, None, None],
        torch.arange(3)[None, :, None, None],
        rows,
        columns,
    ]
