"""The real data sets that benchmarks use, which are not part of this project.

The folder is named by the environment variable ``CALSPLINE_DATA``; without it,
``../shared/data`` next to the working directory is tried.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

VARIABLE = "CALSPLINE_DATA"

# Columns that are known only after the outcome, or that are other forecasts of it.
SUPPORT2_EXCLUDED = [
    *(
        "death",
        "d.time",
        "slos",
        "charges",
        "totcst",
        "totmcst",
        "sfdm2",
        "dnr",
        "dnrday",
    ),
    *("surv2m", "surv6m", "prg2m", "prg6m", "sno"),
]


def folder() -> Path:
    """The folder with the data; if there is none, the ``FileNotFoundError`` says how to set it."""
    place = Path(os.environ.get(VARIABLE, Path("..") / "shared" / "data"))
    if not place.is_dir():
        raise FileNotFoundError(
            f"no data folder at {place}; set {VARIABLE} to the folder that has it"
        )
    return place


def load_adult() -> tuple[
    pd.DataFrame, NDArray[np.intp], pd.DataFrame, NDArray[np.intp]
]:
    """UCI Adult: features and "earns more than 50,000 dollars", of the training and of the test rows."""
    frames = [
        _table(f"adult_{part}.csv.gz", keep_default_na=False).drop(columns="split")
        for part in ("train", "test")
    ]
    (train, y), (test, y_test) = (_split(frame, "income", ">50K") for frame in frames)
    return train, y, test, y_test


def load_support2() -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """SUPPORT2, seriously ill patients: what is known on admission, and death in hospital."""
    return _split(
        _table("support2.csv.gz").drop(columns=SUPPORT2_EXCLUDED), "hospdead", 1
    )


def load_gusto() -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """GUSTO-I, patients with a heart attack: features, and death within 30 days."""
    return _split(_table("gusto1_mortality.csv.gz"), "day30", 1)


def load_bank() -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """UCI bank marketing: features, and whether the client subscribed."""
    return _split(
        _table("bank_additional_full.csv.gz").drop(columns="duration"), "y", "yes"
    )


def load_scores(name: str) -> dict[str, NDArray[Any]]:
    """Published forecasts and what happened: the arrays ``scores``, ``labels`` and more of ``scores/<name>.npz``."""
    return _arrays(Path("scores") / f"{name}.npz")


def load_logits(name: str) -> dict[str, NDArray[Any]]:
    """Outputs of a network: the arrays of ``logits/<name>.npz``."""
    return _arrays(Path("logits") / f"{name}.npz")


def grouped_names() -> list[str]:
    """Names of published forecasts whose rows come in groups, in the folder ``grouped`` next to the data."""
    return sorted(path.stem for path in (folder().parent / "grouped").glob("*.npz"))


def load_grouped(name: str) -> dict[str, NDArray[Any]]:
    """Published forecasts whose rows come in groups: the arrays ``scores``, ``labels`` and ``group``."""
    return _arrays(Path("..") / "grouped" / f"{name}.npz")


def _split(
    frame: pd.DataFrame, target: str, positive: Any
) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    return frame.drop(columns=target), (frame[target] == positive).to_numpy().astype(
        np.intp
    )


def _table(name: str, **options: Any) -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(_existing(Path(name)), **options)


def _arrays(name: Path) -> dict[str, NDArray[Any]]:
    with np.load(_existing(name), allow_pickle=False) as file:
        return dict(file)


def _existing(name: Path) -> Path:
    path = folder() / name
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not there; set {VARIABLE} to the folder that has it"
        )
    return path
