"""The command line: commands, options and their help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

import calspline
from calspline import calibrators
from calspline.cli.files import FORMATS
from calspline.cli.output import InputError
from calspline.export.dialects import DIALECTS

EXAMPLES = """examples:
  calspline demo
  calspline fit past.csv -o model.json
  calspline apply model.json new.parquet -o calibrated.parquet
  calspline evaluate calibrated.csv --score calibrated
  calspline compare calibrated.csv --score score,calibrated
  calspline report past.csv --model model.json -o report.html
  calspline export model.json --to sql
  calspline shift model.json --base-rate 0.02 -o rare.json
  calspline expect model.json new.csv --costs 1,5
  calspline decide calibrated.csv --score score,calibrated --costs 1,5
  calspline monitor state.json today.csv --model model.json
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raise what :func:`calspline.cli.main` prints."""
        raise InputError(f"{message}; see {self.prog} --help")


def parser() -> Parser:
    """The whole command line."""
    root = Parser(
        prog="calspline",
        description="Honest probabilities from any classifier's scores.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"calspline {calspline.__version__}")
    debug = Parser(add_help=False)
    debug.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks")
    root.add_argument("--debug", action="store_true", default=False, help="show tracebacks")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)

    def command(name: str, file: str, help: str, *shared: str) -> argparse.ArgumentParser:
        """A command, which is the function of this name in a file of this folder, with some of the shared options."""
        added: argparse.ArgumentParser = commands.add_parser(name, parents=[debug], help=help, description=help)
        added.set_defaults(file=file)
        for option in shared:
            added.add_argument(option, **SHARED[option])
        return added

    demo = command("demo", "demo", "Ten seconds on built-in data: an over-confident model, before and after.")
    demo.add_argument("folder", nargs="?", default=".", help="where to put the report (default: here)")

    fit = command("fit", "fit", "Learn a calibration from scores and what happened.", "--by", "--json")
    _labelled(fit)
    _output(fit, "the model, a JSON file; - prints it")
    method = fit.add_argument_group("method")
    method.add_argument("--method", choices=calibrators.names(), default="spline", help="default: spline")
    transforms = "of the scores: auto, logit, asinh_logit, compact_logit, or identity for margins"
    method.add_argument("--transform", type=_transform, metavar="NAME", help=transforms)
    method.add_argument("--smoothing", type=_smoothing, metavar="reml|cv|loo|NUMBER", help="default: reml")
    method.add_argument("--monotone", action="store_true", default=None, help="the curve never decreases")
    method.add_argument("--multiclass", choices=("structured", "ovr", "top"), help="default: structured")

    apply = command("apply", "apply", "Add calibrated probabilities to a file of scores.", "model", "--by")
    _data(apply, missing=("error", "drop", "keep"))
    _output(apply, "the data with the new column; - for standard output")
    new_column = "name of the new column, or with three or more classes its beginning (default: calibrated)"
    apply.add_argument("--output", dest="column", metavar="NAME", default="calibrated", help=new_column)
    apply.add_argument("--output-format", choices=FORMATS, help="default: what the name of the output says")

    _labelled(command("evaluate", "evaluate", "Numbers: how good are the probabilities in a file?", "--by", "--json"))

    which = "Several sets of probabilities of the same rows: which to use?"
    compare = command("compare", "evaluate", which, "--by", "--json")
    _labelled(compare, several=True)
    compare.add_argument("--reference", metavar="NAME", help="the set to compare with (default: the first)")

    one_file = "One self-contained HTML file with pictures."
    report = command("report", "evaluate", one_file, "--by", "--costs", "--thresholds")
    _labelled(report, several=True)
    _output(report, "the report; - prints it")
    report.add_argument("--model", metavar="FILE", help="a model that fit wrote: scores before and after it")
    report.add_argument("--title", metavar="TEXT")

    export = command("export", "apply", "A model as SQL, ONNX, Python, JavaScript or C.", "model", "--by")
    export.add_argument("--to", choices=("sql", "onnx", "python", "javascript", "c"), required=True)
    export.add_argument("--dialect", choices=tuple(DIALECTS), help="of SQL (default: duckdb)")
    export.add_argument("--score", metavar="COLUMN", help="in SQL (default: score; several classes: p_<class>,...)")
    export.add_argument("--output", dest="column", metavar="NAME", help="in SQL (default: calibrated)")
    _output(export, "default: standard output", default="-")

    another = "A model for another base rate: given, before rows were thrown away, or from scores alone."
    shift = command("shift", "evaluate", another, "model")
    _data(shift, files="*")
    _output(shift, "the new model; - prints it")
    rates = shift.add_argument_group("base rate")
    rates.add_argument("--base-rate", metavar="NUMBER|A=NUMBER,...", help="the new one, of the second class or of each")
    rates.add_argument("--kept", metavar="A=SHARE,...", help="shares of the rows of each class that were kept")

    early = "Log-loss, AUC, rate, cost and more, before labels come."
    _data(command("expect", "evaluate", early, "model", "--costs", "--json"))

    worth = "What probabilities are worth to somebody who acts on them."
    _labelled(command("decide", "evaluate", worth, "--costs", "--thresholds", "--json"), several=True)

    monitor = command("monitor", "evaluate", "Is a model still right? Looked at as often as one likes.", "--json")
    monitor.add_argument("state", help="a JSON file that the monitor keeps; a new one needs --model")
    _labelled(monitor)
    monitor.add_argument("--model", metavar="FILE", help="to begin: the model to watch")
    chance = "to begin: chance of a false alarm (default: 0.05)"
    monitor.add_argument("--alpha", type=float, metavar="NUMBER", help=chance)
    monitor.add_argument("--page", metavar="FILE", help="write a page in HTML")
    return root


def _data(
    command: argparse.ArgumentParser,
    lacking: str = "a score",
    *,
    files: str = "+",
    missing: Sequence[str] = ("error", "drop"),
    sets: str = "",
) -> None:
    what = f"what to do with rows that lack {lacking} (default: error)"
    command.add_argument("--missing", choices=missing, default="error", help=what)
    group = command.add_argument_group("data")
    kinds = "CSV, TSV, Parquet, JSONL, Arrow; a pattern such as '*.csv'; or -"
    group.add_argument("data", nargs=files, metavar="FILE", help=kinds)
    score = f"scores: a column, a list a,b,c, or a pattern such as 'p_*' (default: the obvious one){sets}"
    group.add_argument("--score", action="append", metavar="COLUMNS", help=score)
    group.add_argument("--format", choices=FORMATS, help="of the data (default: what their names say; of -: csv)")
    group.add_argument("--delimiter", metavar="CHAR", type=_delimiter, help="between fields of CSV (default: found)")
    group.add_argument("--encoding", metavar="NAME", help="of CSV (default: utf-8)")
    group.add_argument("--no-header", action="store_true", help="CSV without names: columns are column0, column1, ...")


def _labelled(command: argparse.ArgumentParser, *, several: bool = False) -> None:
    _data(command, "a score or a label", sets="; repeat NAME=COLUMNS for sets of several classes" if several else "")
    group = command.add_argument_group("labels")
    group.add_argument("--label", metavar="COLUMN", help="what happened (default: the obvious one)")
    group.add_argument("--positive", metavar="LABEL", help="what the score is the probability of")
    group.add_argument("--classes", metavar="A,B,C", help="the labels in the order of the columns of scores")
    group.add_argument("--weight", metavar="COLUMN", help="how many rows a row counts for")
    together = "rows with the same value belong together, such as visits of a patient"
    group.add_argument("--group", metavar="COLUMN", help=together)


def _output(command: argparse.ArgumentParser, help: str, default: str | None = None) -> None:
    command.add_argument("-o", dest="output", metavar="FILE", required=default is None, default=default, help=help)
    command.add_argument("--force", action="store_true", help="write over a file that is there")


def _costs(text: str) -> dict[str, float]:
    parts = text.split(",")
    if len(parts) != 2:
        raise InputError(f"--costs must be those of a false positive and a false negative, as in 1,5; got {text}")
    return {"false_positive": parse_number(parts[0], "--costs"), "false_negative": parse_number(parts[1], "--costs")}


def _thresholds(text: str) -> list[float]:
    return [parse_number(part, "--thresholds") for part in text.split(",")]


def parse_number(text: str, option: str) -> float:
    """The number that an option says."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option} must be a number; got {text!r}") from None


def _transform(text: str) -> str:
    from calspline.transforms import TRANSFORMS

    names = ("auto", *TRANSFORMS)
    if text not in names:
        raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {', '.join(map(repr, names))})")
    return text


def _smoothing(text: str) -> str | float:
    from calspline.fitting.criteria import CRITERIA  # with scipy: not for --help

    if text in CRITERIA:
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {', '.join(CRITERIA)} or a number; got {text!r}") from None


def _delimiter(text: str) -> str:
    found = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(found) != 1:
        raise argparse.ArgumentTypeError(f"must be one character, or tab; got {text!r}")
    return found


SHARED: dict[str, dict[str, Any]] = {
    "model": {"help": "a model that fit wrote"},
    "--by": {"metavar": "COLUMNS", "help": "segments that differ, such as countries: a column, or a list a,b"},
    "--costs": {"type": _costs, "metavar": "FP,FN", "help": "of a false positive and of a false negative"},
    "--thresholds": {"type": _thresholds, "metavar": "A,B,...", "help": "where to act (default: 0.01 to 0.99)"},
    "--json": {"action": "store_true", "help": "the numbers as JSON"},
}
"""Options of several commands."""
