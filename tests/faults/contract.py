"""The cases of the contract for bad and odd input, and where each is tested.

Most cases are entries of the table in ``table.py``, which ``test_table.py`` runs on each
surface. Another test belongs to the surface its folder is named after, and to the cases
that its name starts with: ``frames/test_scores.py::test_01_nan_scores`` is case 1 on
frames, and ``test_03a_rounding`` is case 3a. What is tested elsewhere, and what a surface
has no such input for, is said here.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from tests.faults.table import Case, entries

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

GROUPS: dict[str, dict[Case, tuple[str, str]]] = {
    "Scores": {
        1: ("NaN", "error; in a frame to apply to, null stays null"),
        2: ("infinite", "error"),
        3: (
            "outside [0, 1]",
            'error that names `scale="identity"`; `scale="auto"` takes them for margins if more than a tenth '
            "of the rows is outside; probabilities after margins, and percentages: a warning",
        ),
        "3a": (
            "outside [0, 1] by at most 1e-4, alone or in any batch",
            "clipped: it is rounding",
        ),
        "3b": (
            "a few outside [0, 1] among many inside",
            'error with their number and `scale="identity"`; the scores are never treated as margins without a warning',
        ),
        "3c": (
            "clearly falling: events rise where scores fall",
            "fitted as they are, with a warning",
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
        23: (
            "str, bool, float, categories, -1/+1, 1/2",
            "the same probabilities as 0/1",
        ),
        24: ("continuous", "error"),
        25: ("three classes, one column of scores", "error"),
        26: ("lengths differ", "error with both lengths"),
        27: ("perfect separation", "finite, converged"),
        28: ("pandas with a shuffled index", "rows count by position"),
        29: ("a Series without index 0", "works"),
        "29a": (
            "1 to m, with a class that no row shows",
            "columns by their names, or an error that asks for the classes; columns are never shifted",
        ),
        "29b": (
            "columns named after the classes, in any order or spelling: 1, 1.0, True, `p_1`",
            "matched by value; names of some of the classes only: error",
        ),
        "29c": (
            "columns whose largest score is right less often than chance",
            "fitted as they are, with a warning",
        ),
        "29d": (
            "a matrix of features: columns that are not probabilities, more than twice as many as classes",
            "error that says what scores are and names `CalibratedClassifierCV`",
        ),
    },
    "Weights": {
        30: ("negative", "error"),
        31: ("all zero", "error"),
        32: ("NaN", "error"),
        33: ("some zero", "as if the rows were absent"),
        34: ("integers", "as if rows were repeated"),
        35: ("wrong length", "error"),
        "35a": (
            "not counts: a sum far below the number of rows, or far above what the ratios are worth, unless rows are "
            "a table of counts or most weights are 1",
            'a warning with the sum that names `weights="importance"`; also of `evaluate`, if they are whole numbers',
        ),
        "35b": (
            'of any scale, with `weights="importance"`',
            "the same fit: only ratios count",
        ),
    },
    "Memory": {
        36: ("read-only arrays", "work"),
        37: ("arrays with gaps", "work"),
        38: ("what is passed in", "is not changed"),
        39: ("(n, 1)", "equals (n,)"),
    },
    "Several classes and folds": {
        40: (
            "rows that do not sum to one",
            "error with the tolerance, first row named",
        ),
        41: (
            "a negative entry",
            "error; `identity` takes margins, and `auto` if there are many",
        ),
        42: ("a row of zeros", "error"),
        43: (
            "a class missing from a fold or from the rows",
            "handled, with a warning; probabilities sum to one",
        ),
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
        54: (
            "an option with a wrong value",
            "error at fit that names it and its domain",
        ),
    },
    "Groups and segments": {
        "54a": (
            "of wrong length, NaN or None among them",
            "error; None among segments is a segment never seen",
        ),
        "54b": ("one group", "error that says so"),
        "54c": ("groups of one row", "as without groups"),
        "54d": (
            "a segment never seen",
            "the common curve, and one warning with the number of rows",
        ),
        "54e": (
            "segments of one row, of one class, of equal scores",
            "finite, drawn to the common curve",
        ),
        "54f": (
            "segments of another type",
            "1 and 1.0 are the same; 1 and `'1'` are not, and labels of a type that the fit has not seen: error",
        ),
    },
    "Files": {
        55: (
            "a file that is no model, or a damaged or hostile one",
            "error that says why",
        ),
        56: ("loading", "executes and writes nothing, and takes bounded memory"),
        57: ("killed while saving", "the old file is whole"),
        58: ("a full disk, a place that cannot be written", "error, no partial file"),
        59: (
            "missing values in a table",
            "counts or row numbers, and an option to drop them",
        ),
        60: (
            "byte-order mark, wrong delimiter, wrong encoding",
            "read, or an error that names the option",
        ),
        61: ("HTML or terminal codes in a name or title", "escaped"),
        62: ("SQL in a name", "quoted"),
        63: ("SQL, ONNX, JavaScript, C and every engine", "agree with Python to 1e-9"),
    },
}

CASES = {
    case: (group, *what)
    for group, cases in GROUPS.items()
    for case, what in cases.items()
}

ELSEWHERE: dict[tuple[str, Case], list[str]] = {
    ("calibrators", "29b"): ["tests/test_columns.py"],
    ("histograms", "54e"): ["tests/segments/test_histogram.py"],
    ("frames", "29b"): ["tests/cli/test_names.py"],
    ("frames", "54b"): ["tests/engines/test_groups.py"],
    ("command_line", "29b"): ["tests/cli/test_names.py"],
    ("command_line", "54b"): ["tests/cli/test_groups.py"],
    ("files", 62): ["tests/export/test_sql.py"],
    ("files", 63): [
        "tests/export/test_sql.py",
        "tests/export/test_onnx.py",
        "tests/export/test_code.py",
    ],
    ("command_line", 18): ["tests/cli/test_commands.py"],
    ("command_line", 57): ["tests/cli/test_output.py"],
    ("frames", 63): [
        "tests/engines/test_fit_frame.py",
        "tests/engines/test_apply_frame.py",
    ],
}
"""Further tests of a case, or its only ones."""

_FOLDS = "no folds: only the wrapper makes them"
_TEXT = "no text files: the command line reads them"
_TABLE = "a table's columns are of one length"
_FITTED = "a file holds a fitted model; no rows come in"
_ENGINE = "threads and memory are the engine's own"
_NO_FILES = "writes and reads no files of its own"

_GROUPS_NEED_ROWS = "no rows are kept; `n_effective` says what rows in groups are worth"
_NO_SEGMENTS = "no segments there; what becomes of a model that has them is case 54d"

LOADED: set[Case] = {3, 10, 11, 13, 17, 22, 27, 34, 43}
"""What shows whether a model that was loaded is the one that was saved."""

NOT_APPLICABLE: dict[str, dict[Case, str]] = {
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
        "29d": "a matrix of features is what it takes",
        39: "a column is a feature",
        **dict.fromkeys(
            (56, 57, 58, 62, 63),
            "kept by pickle or joblib, not by `save`; each calibrator can be saved",
        ),
        59: _TEXT,
        60: _TEXT,
    },
    "histograms": {
        **dict.fromkeys(
            ("29c", "29d"), "a histogram is of two classes, and has one column"
        ),
        **dict.fromkeys(("54b", "54c"), _GROUPS_NEED_ROWS),
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
        "54e": _NO_SEGMENTS,
        **dict.fromkeys((55, 56, 57, 58), _NO_FILES),
        60: _TEXT,
        61: "shown by the engine",
    },
    "files": {
        **{
            case: _FITTED
            for case in list(CASES)[: list(CASES).index(46)]
            if case not in LOADED
        },
        47: _FITTED,
        49: _FITTED,
        50: _FITTED,
        52: "`converged_` is part of the file, tested with case 55",
        53: _FITTED,
        **dict.fromkeys(("54a", "54b", "54c", "54e"), _FITTED),
        59: _TEXT,
        60: _TEXT,
    },
    "command_line": {
        6: _TABLE,
        9: "tables are dense",
        28: "no index",
        29: "no index",
        "35b": "no such option; the warning of case 35a says what to divide weights by",
        36: "no arrays",
        37: "no arrays",
        39: "no arrays",
        44: "folds only judge the fit, and are fewer where rows are few",
        49: "a process of its own",
        50: "one thread",
        52: "a warning becomes a note on standard error, as in case 13",
        **dict.fromkeys(("54e", "54f"), _NO_SEGMENTS),
    },
}

_NAME = re.compile(r"test_((?:\d\d[a-z]?_)+)")


@functools.cache
def found_in(surface: str) -> dict[Case, list[str]]:
    """Entries of the table, and tests, of a surface by case."""
    found: dict[Case, list[str]] = {}
    for each in entries(surface):
        found.setdefault(each.case, []).append(f"tests/faults/table.py: {each.name}")
    for path in sorted((HERE / surface).glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            name = _NAME.match(node.name) if isinstance(node, ast.FunctionDef) else None
            for digits in name[1].rstrip("_").split("_") if name else ():
                assert isinstance(node, ast.FunctionDef)
                case = int(digits) if digits.isdigit() else digits.lstrip("0")
                found.setdefault(case, []).append(
                    f"{path.relative_to(ROOT)}::{node.name}"
                )
    return found


def where(surface: str, case: Case) -> list[str]:
    """Every test, or file of tests, of a case on a surface."""
    return [*found_in(surface).get(case, []), *ELSEWHERE.get((surface, case), [])]
