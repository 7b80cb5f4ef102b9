"""The command line: commands, options and their help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from calspline import calibrators
from calspline._version import __version__
from calspline.cli.files import FORMATS
from calspline.cli.output import InputError
from calspline.export.dialects import DIALECTS

EXAMPLES = """examples:
  calspline demo
  calspline fit calibration.csv -o model.json
  calspline apply model.json test.csv -o calibrated.csv
  calspline evaluate calibrated.csv --score calibrated
  calspline compare calibrated.csv --score score,calibrated
  calspline report test.csv --model model.json -o report.html
  calspline export model.json --to sql
  calspline monitor state.json today.csv --model model.json

test.csv must contain other rows than calibration.csv: results on the rows of the fit
are too optimistic.
"""

SCORE_NAMES = (
    "score",
    "prob",
    "probability",
    "proba",
    "p",
    "y_score",
    "y_prob",
    "y_proba",
)
"""Names of a column of scores that are detected, in upper or lower case."""
LABEL_NAMES = ("label", "y", "target", "outcome", "y_true")
"""Names of the column with the outcome that are detected."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raise what :func:`calspline.cli.main` prints."""
        raise InputError(f"{message}; see {self.prog} --help")


def parser() -> Parser:
    """The whole command line."""
    root = Parser(
        prog="calspline",
        description="Calibrated probabilities from any classifier's scores.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"calspline {__version__}")
    debug = Parser(add_help=False)
    debug.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show tracebacks",
    )
    root.add_argument(
        "--debug", action="store_true", default=False, help="show tracebacks"
    )
    commands = root.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )

    def command(
        name: str, file: str, help: str, *shared: str
    ) -> argparse.ArgumentParser:
        """Add a command, the function of this name in a file, with shared options."""
        added: argparse.ArgumentParser = commands.add_parser(
            name, parents=[debug], help=help, description=help
        )
        added.set_defaults(file=file)
        for option in shared:
            added.add_argument(option, **SHARED[option])
        return added

    demo = command(
        "demo",
        "demo",
        "A report on built-in data: an over-confident model, before and after.",
    )
    demo.add_argument(
        "folder",
        nargs="?",
        default=".",
        help="folder of the report (default: the current one)",
    )

    fit = command(
        "fit",
        "fit",
        "Fit a calibrator to scores and outcomes.",
        "--by",
        "--json",
    )
    _labelled(fit)
    _output(fit, "the model, a JSON file; - for standard output")
    method = fit.add_argument_group("method")
    method.add_argument(
        "--method",
        choices=calibrators.names(),
        default="spline",
        help="default: spline",
    )
    scales = (
        "scale of the spline: auto, logit, asinh_logit, compact_logit, or identity "
        "for margins (default: auto)"
    )
    method.add_argument("--scale", type=_scale, metavar="NAME", help=scales)
    method.add_argument(
        "--smoothing", type=_smoothing, metavar="reml|cv|NUMBER", help="default: reml"
    )
    method.add_argument(
        "--monotone",
        action="store_true",
        default=None,
        help="fit an increasing curve",
    )
    method.add_argument(
        "--multiclass", choices=("structured", "ovr"), help="default: structured"
    )

    apply = command(
        "apply",
        "apply",
        "Add calibrated probabilities to a file of scores.",
        "model",
        "--by",
    )
    _data(apply, missing=("error", "drop", "keep"), detected="those of the fit")
    _output(apply, "the data with the new column; - for standard output")
    new_column = (
        "name of the new column; with three or more classes, its prefix "
        "(default: calibrated)"
    )
    apply.add_argument(
        "--output", dest="column", metavar="NAME", default="calibrated", help=new_column
    )
    apply.add_argument(
        "--output-format",
        choices=FORMATS,
        help="format of the output (default: by its file name)",
    )

    _labelled(
        command(
            "evaluate",
            "evaluate",
            "Metrics of the probabilities in a file.",
            "--by",
            "--json",
        )
    )

    which = "Compare several sets of probabilities of the same rows."
    compare = command("compare", "evaluate", which, "--by", "--json")
    _labelled(compare, several=True)
    compare.add_argument(
        "--reference",
        metavar="NAME",
        help="the set that others are compared with (default: the first)",
    )

    one_file = "A report with plots, as one HTML file."
    report = command("report", "evaluate", one_file, "--by", "--costs")
    _labelled(report, several=True)
    _output(report, "the report; - for standard output")
    report.add_argument(
        "--model",
        metavar="FILE",
        help="a model written by fit: report the scores before and after calibration",
    )
    report.add_argument("--title", metavar="TEXT")

    export = command(
        "export",
        "apply",
        "Export a model as SQL, ONNX, Python, JavaScript or C.",
        "model",
        "--by",
    )
    export.add_argument(
        "--to", choices=("sql", "onnx", "python", "javascript", "c"), required=True
    )
    export.add_argument(
        "--dialect", choices=tuple(DIALECTS), help="dialect of SQL (default: duckdb)"
    )
    export.add_argument(
        "--score",
        metavar="COLUMN",
        help="SQL: columns of scores (default: those of the fit)",
    )
    export.add_argument(
        "--output",
        dest="column",
        metavar="NAME",
        help="SQL: name of the new column (default: calibrated)",
    )
    _output(export, "default: standard output", default="-")

    monitor = command(
        "monitor",
        "evaluate",
        "Monitor the calibration of a model over time.",
        "--json",
    )
    monitor.add_argument(
        "state", help="JSON file with the state of the monitor; a new one needs --model"
    )
    _labelled(monitor)
    monitor.add_argument(
        "--model", metavar="FILE", help="for a new state: the model to monitor"
    )
    chance = "for a new state: probability of a false alarm (default: 0.05)"
    monitor.add_argument("--alpha", type=float, metavar="NUMBER", help=chance)
    return root


def _data(
    command: argparse.ArgumentParser,
    lacking: str = "a score",
    *,
    missing: Sequence[str] = ("error", "drop"),
    sets: str = "",
    detected: str = ", ".join(SCORE_NAMES) + ", or p_<class>, prob_<class>, ...",
) -> None:
    what = f"what to do with rows without {lacking} (default: error)"
    command.add_argument("--missing", choices=missing, default="error", help=what)
    group = command.add_argument_group("data")
    kinds = "CSV, TSV, Parquet, JSONL or Arrow; a pattern such as '*.csv'; or -"
    group.add_argument("data", nargs="+", metavar="FILE", help=kinds)
    score = (
        "columns of scores: a name, a list a,b,c, or a pattern such as 'p_*' "
        f"(default: {detected}){sets}"
    )
    group.add_argument("--score", action="append", metavar="COLUMNS", help=score)
    group.add_argument(
        "--format",
        choices=FORMATS,
        help="format of the data (default: by file name; of -: csv)",
    )
    group.add_argument(
        "--delimiter",
        metavar="CHAR",
        type=_delimiter,
        help="delimiter of CSV (default: detected)",
    )
    group.add_argument(
        "--encoding", metavar="NAME", help="encoding of CSV (default: utf-8)"
    )
    group.add_argument(
        "--no-header",
        action="store_true",
        help="CSV without a header: columns are column0, column1, ...",
    )


def _labelled(command: argparse.ArgumentParser, *, several: bool = False) -> None:
    _data(
        command,
        "a score or a label",
        sets="; repeat NAME=COLUMNS for sets of several classes" if several else "",
    )
    group = command.add_argument_group("labels")
    group.add_argument(
        "--label",
        metavar="COLUMN",
        help=f"column with the outcome (default: {', '.join(LABEL_NAMES)})",
    )
    group.add_argument(
        "--positive",
        metavar="LABEL",
        help="label whose probability the score is",
    )
    group.add_argument(
        "--classes",
        metavar="A,B,C",
        help="labels in the order of the columns of scores",
    )
    group.add_argument(
        "--weight",
        metavar="COLUMN",
        help="column with weights: a row of weight 2 counts as two rows",
    )
    together = "column with groups of dependent rows, such as visits of a patient"
    group.add_argument("--group", metavar="COLUMN", help=together)


def _output(
    command: argparse.ArgumentParser, help: str, default: str | None = None
) -> None:
    command.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        required=default is None,
        default=default,
        help=help,
    )
    command.add_argument(
        "--force", action="store_true", help="overwrite an existing file"
    )


def _costs(text: str) -> dict[str, float]:
    parts = text.split(",")
    if len(parts) != 2:
        raise InputError(
            "--costs must be those of a false positive and a false negative, as in "
            f"1,5; got {text}"
        )
    return {
        "false_positive": _number(parts[0], "--costs"),
        "false_negative": _number(parts[1], "--costs"),
    }


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option} must be a number; got {text!r}") from None


def _scale(text: str) -> str:
    from calspline.transforms import TRANSFORMS

    names = ("auto", *TRANSFORMS)
    if text not in names:
        raise argparse.ArgumentTypeError(
            f"invalid choice: {text!r} (choose from {', '.join(map(repr, names))})"
        )
    return text


def _smoothing(text: str) -> str | float:
    if text in ("reml", "cv"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be reml, cv or a number; got {text!r}"
        ) from None


def _delimiter(text: str) -> str:
    found = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(found) != 1:
        raise argparse.ArgumentTypeError(f"must be one character, or tab; got {text!r}")
    return found


SHARED: dict[str, dict[str, Any]] = {
    "model": {"help": "a model written by fit"},
    "--by": {
        "metavar": "COLUMNS",
        "help": "columns of segments, such as countries: a name, or a list a,b",
    },
    "--costs": {
        "type": _costs,
        "metavar": "FP,FN",
        "help": "costs of a false positive and of a false negative",
    },
    "--json": {"action": "store_true", "help": "print the results as JSON"},
}
"""Options of several commands."""
