"""Calibrators as tables: the numbers of a map in dicts, lists, floats and strings.

They are what ``to_python``, ``to_javascript`` and ``to_c`` write; the evaluators of
these languages, in ``evaluators/``, read them. Every map has a ``type`` and the numbers
that this type needs; maps that wrap another map have it as ``base``.
"""

from __future__ import annotations

from calspline._input.scores import SCORE_LIMITS
from calspline.maps.base import Table
from calspline.maps.model import Model


def tables_of(model: Model) -> Table:
    """The tables of a model."""
    kind = model.kind.value_kind
    low, high = SCORE_LIMITS[kind]
    return {
        "classes": model.n_classes,
        "scores": kind,
        "low": low,
        "high": high,
        "map": model.map.table(kind),
    }
