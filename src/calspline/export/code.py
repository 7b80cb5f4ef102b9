"""Export to source code: an evaluator and tables of numbers.

An evaluator is a plain source file in ``evaluators/``. It is the same for all
calibrators; only the tables that follow it differ.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from calspline._version import __version__
from calspline.export.formulas import check_exportable
from calspline.export.tables import tables_of
from calspline.maps.base import Table
from calspline.maps.model import Model

WIDTH = 88
LARGEST_INTEGER = 2**53
"""Largest integer that is exact in JavaScript."""
LARGEST_LONG = 2**63
UNSAFE = re.compile(r"[^\w .,+'\"\\-]", re.ASCII)
C_TYPES = {"text": "text", "integer": "long long", "number": "double"}


def to_python(calibrator: Any) -> str:
    """Export a calibrator to Python source that needs only the standard library.

    The source defines a function ``calibrate``. For two classes, it takes one score
    (the probability of ``classes_[1]`` or a margin) and returns the calibrated
    probability; for more classes, it takes and returns a list in the order of
    ``classes_``. Invalid scores, such as probabilities outside [0, 1], raise
    ValueError.

    Parameters
    ----------
    calibrator : fitted calibrator
        Calibrator to export.

    Returns
    -------
    source : str
        Python source.

    Examples
    --------
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_python
    >>> cal = SplineCalibrator().fit([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> code = {}
    >>> exec(to_python(cal), code)
    >>> abs(code["calibrate"](0.8) - cal.calibrate([0.8])[0]) < 1e-12
    np.True_
    """
    model = check_exportable(calibrator)
    table = tables_of(model)
    if model.segment_columns:
        table["segments"] = [
            {
                "labels": kind_of(column.known.labels),
                "places": python_places(column.known.labels),
            }
            for column in model.segment_columns
        ]
    parts = [f"# {title_of(model)}", evaluator("calibrate.py"), ""]
    return "\n".join([*parts, f"MODEL = {literal(table)}\n"])


def to_javascript(calibrator: Any) -> str:
    """Export a calibrator to JavaScript source without dependencies.

    The source defines a function ``calibrate``. For two classes, it takes one score
    (the probability of ``classes_[1]`` or a margin) and returns the calibrated
    probability; for more classes, it takes and returns an array in the order of
    ``classes_``. Invalid scores, such as probabilities outside [0, 1], give NaN.

    Parameters
    ----------
    calibrator : fitted calibrator
        Calibrator to export.

    Returns
    -------
    source : str
        JavaScript source. To import it as a module, append ``export { calibrate };``.

    Examples
    --------
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_javascript
    >>> cal = SplineCalibrator().fit([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> print(to_javascript(cal))  # doctest: +ELLIPSIS
    // Probability of class 1, calibrated. Written by calspline ...
    // Positive numbers that sum to one, in the proportions of exp(y).
    function softmax(y) {
    ...
    """
    model = check_exportable(calibrator)
    table = tables_of(model)
    if model.segment_columns:
        table["segments"] = [
            {
                "labels": kind_of(column.known.labels),
                "places": javascript_places(column.known.labels),
            }
            for column in model.segment_columns
        ]
    parts = [f"// {title_of(model)}", evaluator("calibrate.js")]
    return "\n".join([*parts, f"const MODEL = {literal(table)};\n"])


def to_c(calibrator: Any) -> str:
    """Export a calibrator to C99 source that needs only the math library.

    The source defines ``double calibrate(double p)`` for two classes, where ``p`` is
    the probability of ``classes_[1]`` or a margin, and ``void calibrate(const double
    *p, double *out)`` for more classes, in the order of ``classes_``. Invalid scores,
    such as probabilities outside [0, 1], give NaN.

    Parameters
    ----------
    calibrator : fitted calibrator
        Calibrator to export.

    Returns
    -------
    source : str
        C source, to be linked with ``-lm``. Compilation fails with ``-ffast-math``,
        which does not support NaN.

    Examples
    --------
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_c
    >>> cal = SplineCalibrator().fit([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> print(to_c(cal))  # doctest: +ELLIPSIS
    /* Probability of class 1, calibrated. Written by calspline ... */
    #define CLASSES 2
    ...
    double calibrate(double p)
    {
        return calibrate_score(p, NULL);
    }
    """
    model = check_exportable(calibrator)
    return f"/* {title_of(model)} */\n" + CSource(model).text()


@cache
def evaluator(file: str) -> str:
    """Source of the evaluator for a language."""
    return (files("calspline.export") / "evaluators" / file).read_text("utf-8")


def title_of(model: Model) -> str:
    """Title comment in ASCII that says what ``calibrate`` returns.

    Labels are escaped: none can end a comment or a ``<script>``, or look like ``coding:
    ...`` to Python.
    """
    classes = model.classes.tolist()
    listed = [
        json.dumps(label if isinstance(label, (str, int, float)) else str(label))
        for label in classes
    ]
    labels = [
        UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", label) for label in listed
    ]
    if len(labels) == 2:
        what = f"Probability of class {labels[1]}"
    else:
        what = f"Probabilities of classes {', '.join(labels)}"
    return f"{what}, calibrated. Written by calspline {__version__}."


class SourceText(str):
    """Source code, which is written without quotes."""


def literal(value: Any, indent: str = "") -> str:
    """Literal in Python or JavaScript syntax."""
    inner = indent + "    "
    if isinstance(value, SourceText):
        return value
    if isinstance(value, dict):
        items = [
            f"{inner}{json.dumps(k)}: {literal(v, inner)}," for k, v in value.items()
        ]
        return "\n".join(["{", *items, indent + "}"])
    if not isinstance(value, list):
        return json.dumps(value) if isinstance(value, str) else repr(value)
    if value and isinstance(value[0], (dict, list)):
        items = [f"{inner}{literal(each, inner)}," for each in value]
        return "\n".join(["[", *items, indent + "]"])
    return "[" + numbers(value, inner, len(indent) + 2) + "]"


def numbers(values: Sequence[float], indent: str, around: int) -> str:
    """Format numbers on one line or on several."""
    listed = ", ".join(map(repr, values))
    if around + len(listed) <= WIDTH:
        return listed
    lines = textwrap.wrap(
        listed + ",", WIDTH, initial_indent=indent, subsequent_indent=indent
    )
    return "\n".join(["", *lines, indent[4:]])


def kind_of(labels: Sequence[Any]) -> str:
    """Whether labels are strings, numbers or both."""
    texts = [isinstance(label, str) for label in labels]
    if all(texts):
        return "text"
    return "mixed" if any(texts) else "number"


def python_places(labels: Sequence[Any]) -> SourceText:
    """Dict of segment codes in Python syntax."""
    items = [f"{label!a}: {place}" for place, label in enumerate(labels)]
    return SourceText("{" + ", ".join(items) + "}")


def javascript_places(labels: Sequence[Any]) -> SourceText:
    """Map of segment codes in JavaScript syntax."""
    items = [f"[{javascript_label(x)}, {place}]" for place, x in enumerate(labels)]
    return SourceText("new Map([" + ", ".join(items) + "])")


def javascript_label(label: Any) -> str:
    """Label of a segment in JavaScript syntax."""
    if isinstance(label, str):
        return json.dumps(label).replace("<", "\\u003c")  # no label ends a script
    if isinstance(label, int) and abs(label) > LARGEST_INTEGER:
        raise ValueError(
            f"segments must be integers that JavaScript has; {label} is too large"
        )
    return repr(label if isinstance(label, float) else int(label))


def c_label(label: Any) -> str:
    """Label of a segment in C syntax."""
    if not isinstance(label, str):
        if abs(label) >= LARGEST_LONG and isinstance(label, int):
            raise ValueError(
                f"segments must be integers that C has; {label} is too large"
            )
        return repr(label if isinstance(label, float) else int(label))
    if "\0" in label:
        raise ValueError(
            "segments must be texts that C has, without a null character; got "
            f"{label!r}"
        )
    plain = (
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}"
        for byte in label.encode()
    )
    return '"' + "".join(plain) + '"'


class CSource:
    """Tables of a model as static C arrays and structures."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.declarations: list[str] = []
        self.n_names: dict[str, int] = {}

    def text(self) -> str:
        """The source without its title."""
        table = tables_of(self.model)
        columns = [list(column.known.labels) for column in self.model.segment_columns]
        kinds = [self._kind(labels) for labels in columns]
        settings = {
            "CLASSES": table["classes"],
            "COLUMNS": len(columns),
            "SCORES": table["scores"].upper(),
            "LOW": f"({table['low']!r})",
            "HIGH": repr(table["high"]),
        }
        settings |= {f"{kind.upper()}_SEGMENTS": 1 for kind in kinds}
        defines = [f"#define {name} {value}" for name, value in settings.items()]
        fields = self._fields(table["map"])
        self.declarations.append(f"static const struct table MAP = {fields};")
        finds = [self._find(*each) for each in zip(columns, kinds, strict=True)]
        main = self._main(kinds, finds)
        parts = [*defines, evaluator("calibrate.c"), *self.declarations, "", main]
        return "\n".join(parts)

    def _kind(self, labels: list[Any]) -> str:
        kind = kind_of(labels)
        if kind == "mixed":
            raise ValueError(
                "segments must all be texts or all be numbers for this language; by "
                "has "
                "both"
            )
        is_integer = all(isinstance(label, int) for label in labels)
        return "integer" if kind == "number" and is_integer else kind

    def _main(self, kinds: list[str], finds: list[str]) -> str:
        """The function ``calibrate``."""
        names = ["by"] if len(kinds) == 1 else [f"by_{c}" for c in range(len(kinds))]
        given = "".join(
            f", {C_TYPES[kind]} {name}" for kind, name in zip(kinds, names, strict=True)
        )
        places = [find.format(name) for find, name in zip(finds, names, strict=True)]
        lines = []
        argument = "NULL"
        if kinds:
            argument = "places"
            lines.append(f"    const int places[] = {{{', '.join(places)}}};")
        if self.model.n_classes == 2:
            head = f"double calibrate(double p{given})"
            lines.append(f"    return calibrate_score(p, {argument});")
        else:
            head = f"void calibrate(const double *p{given}, double *out)"
            lines.append(f"    calibrate_row(p, {argument}, out);")
        return "\n".join([head, "{", *lines, "}", ""])

    def _find(self, labels: list[Any], kind: str) -> str:
        """Declare sorted labels; return the expression that looks up a label."""
        order = sorted(range(len(labels)), key=labels.__getitem__)
        written = [c_label(labels[place]) for place in order]
        types = f"{C_TYPES[kind]} "
        label_name = self._declare(f"static const {types}", "LABELS", written)
        place_name = self._declare("static const int ", "PLACES", map(str, order))
        return f"find_{kind}({{}}, {label_name}, {place_name}, {len(labels)})"

    def _name(self, prefix: str) -> str:
        """Unused name."""
        number = self.n_names.get(prefix, 0)
        self.n_names[prefix] = number + 1
        return f"{prefix}_{number}"

    def _declare(self, before: str, prefix: str, items: Any) -> str:
        """Declare an array and return its name."""
        name = self._name(prefix)
        text = ",\n".join(items) if prefix == "TABLES" else ", ".join(items)
        if len(text) > WIDTH and prefix not in ("TABLES", "LABELS"):
            text = textwrap.fill(text, WIDTH)
        self.declarations.append(f"{before}{name}[] = {{\n{text}\n}};")
        return name

    def _array(self, name: str, values: Any) -> str:
        flat = np.ravel(values).tolist()
        return self._declare("static const double ", name.upper(), map(repr, flat))

    def _pointers(self, name: str, arrays: Sequence[Any]) -> str:
        names = [self._array(name, values) for values in arrays]
        return self._declare("static const double *const ", f"{name}_OF".upper(), names)

    def _fields(self, table: Table) -> str:
        """Initializer of a map."""
        fields = {"type": table["type"].upper()}
        for name in ("scores", "scale", "logits"):
            if name in table:
                fields[name] = table[name].upper()
        if "link" in table:
            fields["link"] = f"LINK_{table['link'].upper()}"
        for name, value in table.items():
            if isinstance(value, float):
                fields[name] = repr(value)
        for name in ("scale_limits", "abc"):
            if name in table:
                fields[name] = "{" + ", ".join(map(repr, table[name])) + "}"
        for name in ("pieces", "intercepts", "diagonal", "matrix", "ratios", "rates"):
            if name in table:
                fields[name] = self._array(name, table[name])
        if "pieces" in table:
            fields["n_pieces"] = str(len(table["pieces"]))
        if "segments" in table:
            columns = table["segments"]
            fields["n_directions"] = str(len(table["directions"]))
            fields["directions"] = self._array("directions", table["directions"])
            effects = [column["effects"][:-1] for column in columns]
            fields["effects"] = self._pointers("effects", effects)
            spread = [column["spread"] for column in columns]
            fields["spread"] = self._pointers("spread", spread)
        if table["type"] == "class_effects":
            fields["n_directions"] = str(len(table["common"]))
            fields["common"] = self._array("common", table["common"])
            effects = [column[:-1] for column in table["effects"]]
            fields["effects"] = self._pointers("effects", effects)
            new = [column[-1] for column in table["effects"]]
            fields["spread"] = self._pointers("new", new)
        if "base" in table:
            name = self._declare(
                "static const struct table ", "TABLES", [self._fields(table["base"])]
            )
            fields["base"] = name
        if "maps" in table:
            maps = [self._fields(each) for each in table["maps"]]
            name = self._declare("static const struct table ", "TABLES", maps)
            fields["base"] = name
        items = [f".{name} = {value}" for name, value in fields.items()]
        return "{" + ",\n    ".join(items) + "}"
