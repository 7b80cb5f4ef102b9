"""Groups of dependent rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._input.labels import check_label_array


def check_groups(
    groups: Any, n: int, name: str = "groups", *, beside: str = "scores"
) -> NDArray[np.intp] | None:
    """Codes of the groups in sorted order; None stays None."""
    if groups is None:
        return None
    dtype = getattr(groups, "dtype", None)
    if isinstance(groups, list) or getattr(dtype, "kind", "") in ("M", "m"):
        groups = np.asarray(groups, dtype=object)
    array = check_label_array(groups, n, name, beside=beside)
    if array.dtype.kind == "O":
        values = array.tolist()
        try:
            distinct = sorted(set(values), key=_by_type)
        except TypeError:
            raise TypeError(
                f"{name} must be one hashable value a row; row 0 is {values[0]!r}"
            ) from None
        order = {value: place for place, value in enumerate(distinct)}
        array = np.array([order[value] for value in values], dtype=np.intp)
    return np.asarray(np.unique(array, return_inverse=True)[1], dtype=np.intp)


def _by_type(value: Any) -> tuple[Any, ...]:
    """Sort key: numbers by size and others by type, so that 1 and "1" differ."""
    if isinstance(value, (int, float, np.number)):
        return "", value
    if isinstance(value, str):
        return type(value).__name__, value
    return type(value).__name__, repr(value)


def several_groups(group: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
    """Check that there are at least two groups; None if each row is a group."""
    if group is None:
        return None
    n_groups = int(group.max()) + 1
    if n_groups < 2:  # one alone says nothing about how groups differ
        raise ValueError(
            "groups must have at least two groups that count; all rows are of one"
        )
    return group if n_groups < len(group) else None
