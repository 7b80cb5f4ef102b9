"""Export of fitted calibrators: SQL, ONNX, PyTorch, Python, JavaScript and C.

Each function takes a fitted calibrator and returns code that runs without this package
and agrees with ``calibrate`` to 1e-9. Invalid scores, for which ``calibrate`` raises an
error, give NULL in SQL, NaN in ONNX, PyTorch, JavaScript and C, and raise ValueError in
Python.

>>> import numpy as np
>>> import calspline.export
>>> rng = np.random.default_rng(0)
>>> p = rng.uniform(size=2000)
>>> cal = calspline.SplineCalibrator().fit(p, rng.random(2000) < p**2)
>>> code = {}
>>> exec(calspline.export.to_python(cal), code)
>>> round(code["calibrate"](0.5), 12) == cal.calibrate([0.5]).round(12)[0]
np.True_

How it is made
--------------
A fitted map reaches its targets in one of three forms.

- PyTorch and the array API compute: ``calspline.maps.evaluators`` turns a map into a
  tree of records with arrays, and evaluates it with the functions of any array library.
  ``torch.py`` makes these arrays buffers of a module.
- Python, JavaScript and C read tables: ``tables.py`` turns a map into dicts, lists and
  numbers, which ``code.py`` writes behind the evaluator of the language. Evaluators
  are ordinary files in ``evaluators/``; their functions have the same names.
- SQL and ONNX write formulas: ``model.formula()`` gives named steps of arithmetic and
  of operations on rows (``calspline._expression``), which ``sql.py`` and
  ``onnx_graph.py`` write one by one. ``onnx_scores.py`` has what goes before a
  calibrator in an ONNX model.

So a new kind of map needs a record in ``maps/evaluators.py``, a table in ``tables.py``
with a function in each of the three evaluators, and a ``formula`` method. The tests of
``tests/export`` run every target in its real engine on unusual scores, and compare with
``calibrate`` to 1e-9; a calibrator added to ``CASES`` in ``conftest.py`` is tested in
all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calspline.export.code import to_c, to_javascript, to_python
    from calspline.export.onnx import to_onnx
    from calspline.export.sql import to_sql
    from calspline.export.torch import to_torch

_HOMES = {
    "to_c": "calspline.export.code",
    "to_javascript": "calspline.export.code",
    "to_onnx": "calspline.export.onnx",
    "to_python": "calspline.export.code",
    "to_sql": "calspline.export.sql",
    "to_torch": "calspline.export.torch",
}

__all__ = ["to_c", "to_javascript", "to_onnx", "to_python", "to_sql", "to_torch"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'calspline.export' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
