"""The cases of the contract for bad and odd input, and where each is tested.

A test below this folder belongs to the surface its folder is named after, and to the cases that its name starts with:
``frames/test_scores.py::test_01_nan_scores`` is case 1 on frames. What is tested elsewhere, and what a
surface has no such input for, is said here.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

SURFACES = {
    "calibrators": "every calibrator, on arrays of two and three classes",
    "wrapper": "`CalibratedClassifierCV`",
    "histograms": "`ScoreHistogram`, `partial_fit`, `fit_histogram`",
    "frames": "`fit_frame`, `apply_frame`",
    "files": "`save`, `load`, reports and exported source",
    "command_line": "the `calspline` command",
}

GROUPS = {
    "Scores": {
        1: ("NaN", "error; in a frame to apply to, null stays null"),
        2: ("infinite", "error"),
        3: (
            "outside [0, 1]",
            'error that names `transform="identity"`; within 1e-6, clipped; `transform="auto"` takes them for margins '
            "if more than a tenth of the rows is outside; clearly falling, all in [0, 1] after margins: a warning",
        ),
        4: ("empty fit", "error"),
        5: ("empty predict", "an empty result, the shape kept"),
        6: ("three dimensions", "error"),
        7: ("complex numbers", "error"),
        8: ("strings", "error"),
        9: ("sparse", "error"),
        10: ("exact 0 and 1", "finite; never 0 or 1 out"),
        11: ("only 0s and 1s", "works"),
        12: ("denormals", "finite"),
        13: ("constant", "the base rate, with a warning"),
        14: ("two distinct values", "works"),
        15: ("fewer distinct values than knots", "fewer knots"),
        16: ("one row", "error"),
        17: ("three rows, both classes", "a shrunk fit"),
        18: ("many rows", "bounded memory, every row seen"),
        19: ("other number types and containers", "the same numbers as float64 arrays"),
    },
    "Labels": {
        20: ("NaN or None", "error"),
        21: ("one class", "error that names it"),
        22: ("one positive", "finite"),
        23: ("str, bool, float, categories, -1/+1, 1/2", "the same probabilities as 0/1"),
        24: ("continuous", "error"),
        25: ("three classes, one column of scores", "error"),
        26: ("lengths differ", "error with both lengths"),
        27: ("perfect separation", "finite, converged"),
        28: ("pandas with a shuffled index", "rows count by position"),
        29: ("a Series without index 0", "works"),
    },
    "Weights": {
        30: ("negative", "error"),
        31: ("all zero", "error"),
        32: ("NaN", "error"),
        33: ("some zero", "as if the rows were absent"),
        34: ("integers", "as if rows were repeated; a sum that makes no sense as a count: a warning"),
        35: ("wrong length", "error"),
    },
    "Memory": {
        36: ("read-only arrays", "work"),
        37: ("arrays with gaps", "work"),
        38: ("what is passed in", "is not changed"),
        39: ("(n, 1)", "equals (n,)"),
    },
    "Several classes and folds": {
        40: ("rows that do not sum to one", "error with the tolerance, first row named"),
        41: ("a negative entry", "error; `identity` takes margins, and `auto` if there are many"),
        42: ("a row of zeros", "error"),
        43: ("a class missing from a fold or from the rows", "handled, with a warning; probabilities sum to one"),
        44: ("fewer rows of a class than folds", "error, as scikit-learn words it"),
        45: ("a fitted model of other features", "error"),
    },
    "Life": {
        46: ("predict before fit", "`NotFittedError`"),
        47: ("refit", "equals a fresh fit"),
        48: ("clone, parameters, pickle", "round trips"),
        49: ("the global random state", "is not touched"),
        50: ("any number of jobs or threads", "the same result"),
        51: ("sixteen threads predicting", "agree"),
        52: ("no convergence", "a `ConvergenceWarning`, `converged_ = False`"),
        53: ("row order and chunks", "do not matter"),
        54: ("an option with a wrong value", "error at fit that names it and its domain"),
    },
    "Files": {
        55: ("a file that is no model, or a damaged or hostile one", "error that says why"),
        56: ("loading", "executes and writes nothing, and takes bounded memory"),
        57: ("killed while saving", "the old file is whole"),
        58: ("a full disk, a place that cannot be written", "error, no partial file"),
        59: ("missing values in a table", "counts or row numbers, and an option to drop them"),
        60: ("byte-order mark, wrong delimiter, wrong encoding", "read, or an error that names the option"),
        61: ("HTML or terminal codes in a name or title", "escaped"),
        62: ("SQL in a name", "quoted"),
        63: ("SQL, ONNX, JavaScript, C and every engine", "agree with Python to 1e-9"),
    },
}

CASES = {number: (group, *what) for group, cases in GROUPS.items() for number, what in cases.items()}

ELSEWHERE = {
    ("files", 62): ["tests/export/test_sql.py"],
    ("files", 63): ["tests/export/test_sql.py", "tests/export/test_onnx.py", "tests/export/test_code.py"],
    ("command_line", 18): ["tests/cli/test_commands.py"],
    ("command_line", 57): ["tests/cli/test_output.py"],
    ("frames", 63): ["tests/engines/test_fit_frame.py", "tests/engines/test_apply_frame.py"],
}
"""Further tests of a case, or its only ones."""

_FOLDS = "no folds: only the wrapper makes them"
_TEXT = "no text files: the command line reads them"
_TABLE = "a table's columns are of one length"
_FITTED = "a file holds a fitted model; no rows come in"
_ENGINE = "threads and memory are the engine's own"
_NO_FILES = "writes and reads no files of its own"

NOT_APPLICABLE: dict[str, dict[int, str]] = {
    "calibrators": {
        44: _FOLDS,
        45: _FOLDS,
        **dict.fromkeys((55, 56, 57, 58), "tested for every calibrator under files"),
        59: _TEXT,
        60: _TEXT,
        62: "no names",
        63: "tested for every calibrator under files",
    },
    "wrapper": {
        18: "rows go to the model and to the calibrators, tested there",
        39: "a column is a feature",
        **dict.fromkeys((56, 57, 58, 62, 63), "kept by pickle or joblib, not by `save`; each calibrator can be saved"),
        59: _TEXT,
        60: _TEXT,
    },
    "histograms": {
        44: _FOLDS,
        45: _FOLDS,
        50: "collected in one thread",
        **dict.fromkeys((55, 56, 57, 58), "tested under files"),
        59: _TEXT,
        60: _TEXT,
        **dict.fromkeys((61, 62), "no names"),
        63: "engines fill histograms through frames",
    },
    "frames": {
        9: "frames are dense",
        26: _TABLE,
        35: _TABLE,
        44: _FOLDS,
        45: "columns are found by name; a missing one is case 54",
        50: _ENGINE,
        **dict.fromkeys((55, 56, 57, 58), _NO_FILES),
        60: _TEXT,
        61: "shown by the engine",
    },
    "files": {
        **dict.fromkeys(range(1, 46), _FITTED),
        47: _FITTED,
        49: _FITTED,
        50: _FITTED,
        52: "`converged_` is part of the file, tested with case 55",
        53: _FITTED,
        59: _TEXT,
        60: _TEXT,
    },
    "command_line": {
        6: _TABLE,
        9: "tables are dense",
        28: "no index",
        29: "no index",
        36: "no arrays",
        37: "no arrays",
        39: "no arrays",
        44: "folds only judge the fit, and are fewer where rows are few",
        49: "a process of its own",
        50: "one thread",
        52: "a warning becomes a note on standard error, as in case 13",
    },
}

_NAME = re.compile(r"test_((?:\d\d_)+)")


@functools.cache
def found_in(surface: str) -> dict[int, list[str]]:
    """Tests of a surface by case, as ``file::function``."""
    found: dict[int, list[str]] = {}
    for path in sorted((HERE / surface).glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            name = _NAME.match(node.name) if isinstance(node, ast.FunctionDef) else None
            for number in name[1].rstrip("_").split("_") if name else ():
                assert isinstance(node, ast.FunctionDef)
                found.setdefault(int(number), []).append(f"{path.relative_to(ROOT)}::{node.name}")
    return found


def where(surface: str, case: int) -> list[str]:
    """Every test, or file of tests, of a case on a surface."""
    return [*found_in(surface).get(case, []), *ELSEWHERE.get((surface, case), [])]
