"""Results that took long to make, kept outside the repository so that an interrupted run goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VARIABLE = "CALSPLINE_CACHE"

Arrays = dict[str, NDArray[Any]]


def folder() -> Path:
    """The folder named by ``CALSPLINE_CACHE``, else ``calspline`` among the user's caches."""
    default = (
        Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "calspline"
    )
    place = Path(os.environ.get(VARIABLE, default))
    place.mkdir(parents=True, exist_ok=True)
    return place


def has(name: str) -> bool:
    """Whether the arrays of that name are there."""
    return _path(name).is_file()


def kept(name: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays of that name: read, or made and then written."""
    path = _path(name)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Under another name first: a run that is killed leaves no half of a file
        # behind.
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **make())
        unfinished.replace(path)
    with np.load(path, allow_pickle=False) as found:
        return dict(found)


def _path(name: str) -> Path:
    return folder() / f"{name}.npz"
