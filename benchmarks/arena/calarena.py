"""Reading the HDF5 files of CalArena: ``{dataset}/{model}/{probas_cal,labels_cal,probas_test,labels_test}``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena.experiments import Experiment, probabilities

ARRAYS = ("probas_cal", "labels_cal", "probas_test", "labels_test")
SUFFIXES = (".h5", ".hdf5")


def names(path: Path) -> list[str]:
    """The experiments in a file, as ``dataset/model``."""
    with _open(path) as file:
        return sorted(_experiments(file))


def read(path: Path, name: str) -> Experiment:
    """One experiment. Binary probabilities may be those of the second class alone."""
    with _open(path) as file:
        p, y, test_p, test_y = (np.asarray(file[name][part]) for part in ARRAYS)
    return Experiment(
        _columns(p),
        y.ravel().astype(np.intp),
        _columns(test_p),
        test_y.ravel().astype(np.intp),
    )


def _open(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError("CalArena's files need h5py: pip install h5py") from error
    return h5py.File(path, "r")


def _experiments(file: Any) -> Iterator[str]:
    for dataset, models in file.items():
        for model, arrays in models.items():
            absent = [part for part in ARRAYS if part not in arrays]
            if absent:
                raise ValueError(
                    f"{file.filename}: {dataset}/{model} has no {', '.join(absent)}"
                )
            yield f"{dataset}/{model}"


def _columns(stored: Any) -> Any:
    if stored.ndim == 1 or stored.shape[1] == 1:
        second = stored.reshape(-1).astype(np.float64)
        stored = np.column_stack([1.0 - second, second])
    return probabilities(stored)
