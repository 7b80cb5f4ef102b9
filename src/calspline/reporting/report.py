"""The report: a self-contained HTML file on sets of predictions."""

from __future__ import annotations

import hashlib
import math
import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from calspline._formatting import format_number, percent, precise_percent
from calspline._input.options import check_text
from calspline._persistence import write_whole
from calspline._user_warnings import warn_user
from calspline.calibrators.checks import check_fitted_calibrator
from calspline.evaluation.compare import Comparison, compare_predictions
from calspline.evaluation.decisions import Decision, decide_predictions
from calspline.evaluation.predictions import Predictions, check_prediction_sets
from calspline.reporting import charts, sections, summary

INLINE_HEIGHT = 860
TRAINING_ROWS = (
    "These are the rows that the calibrator was fitted to, so its measures are too "
    "optimistic. Evaluate it on other rows."
)


@dataclass(frozen=True, eq=False)
class Report:
    """A report, as returned by :func:`report`; notebooks show it inline.

    Attributes
    ----------
    path : Path or None
        Path of the file, if it was written.
    headline : str
        First sentences of the report.
    comparison : Comparison
        Comparison of the sets.
    decision : Decision or None
        Results of the section on decisions, if there is one.
    html : str
        The HTML page.
    """

    path: Path | None
    headline: str
    comparison: Comparison
    decision: Decision | None
    html: str = field(repr=False)

    def __str__(self) -> str:
        return self.headline if self.path is None else f"{self.headline}\n{self.path}"

    def _repr_html_(self) -> str:
        """The page in an iframe, which separates its style and script."""
        style = f"width:100%;height:{INLINE_HEIGHT}px;border:0"
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" '
            'title="Calibration report" '
            f'style="{style}"></iframe>'
        )


def report(
    y: Any,
    predictions: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    calibrator: Any = None,
    title: str | None = None,
    sample_weight: Any = None,
    labels: Any = None,
    pos_label: Any = None,
    groups: Any = None,
    by: Any = None,
    costs: Mapping[str, float] | None = None,
    thresholds: Any = None,
) -> Report:
    """Create a self-contained, interactive HTML report on calibration.

    The page has a summary, a table of measures, reliability diagrams and the
    decomposition of the losses. It works without network access, and the same input
    gives the same page.

    Parameters
    ----------
    y, sample_weight, labels, pos_label, groups, by
        As for :func:`evaluate`. With ``by``, the page has a section on segments that
        can be searched and sorted.
    predictions : mapping of str to array-like, or array-like
        Probabilities by name, each as for :func:`evaluate`. The first set is the one in
        use, before calibration.
    path : str or path-like, optional
        Path of the HTML file. By default no file is written; notebooks show the result.
    calibrator : fitted calibrator, optional
        Calibrator of which to show the curve and the fit. A warning is issued if a set
        holds its probabilities of the rows that it was fitted to.
    title : str, optional
        Title of the page.
    costs, thresholds : optional
        As for :func:`decide`. With either, the page has a section on decisions. Two
        classes only.

    Returns
    -------
    result : Report
        The page, and the results in it.

    See Also
    --------
    compare : Compare sets of predictions.
    reliability : Compute a reliability diagram.
    decide : Decision analysis of predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import SplineCalibrator, report
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=4000)
    >>> y = rng.random(4000) < p
    >>> raw = p**3 / (p**3 + (1 - p) ** 3)
    >>> cal = SplineCalibrator().fit(raw[:2000], y[:2000])
    >>> sets = {"raw": raw[2000:], "calibrated": cal.calibrate(raw[2000:])}
    >>> print(report(y[2000:], sets, calibrator=cal))
    Raw scores are over-confident: where 90% is predicted, the observed frequency is 67%. After calibration 90% means 89% ± 3.1%.
    """  # noqa: E501
    rows = check_prediction_sets(
        y, predictions, sample_weight, labels, groups, by, pos_label=pos_label
    )
    return report_predictions(
        rows,
        path,
        calibrator=calibrator,
        title=title,
        costs=costs,
        thresholds=thresholds,
    )


def report_predictions(
    rows: Mapping[str, Predictions],
    path: str | os.PathLike[str] | None = None,
    *,
    calibrator: Any = None,
    title: str | None = None,
    costs: Mapping[str, float] | None = None,
    thresholds: Any = None,
) -> Report:
    """Report on validated predictions."""
    if calibrator is not None:
        check_fitted_calibrator(calibrator, len(next(iter(rows.values())).classes))
    if title is not None:
        check_text(title, "title")
    decision = None
    if costs is not None or thresholds is not None:
        decision = decide_predictions(rows, costs=costs, thresholds=thresholds)
    comparison = compare_predictions(rows)
    page = summarise(rows, comparison, calibrator, title, decision)
    if page["training"] is not None:
        warn_user(page["training"])
    html = render(page)
    where = None if path is None else Path(path)
    if where is not None:
        write_whole(where, html)
    return Report(
        where,
        " ".join(sentence for _, sentence in page["headline"]),
        comparison,
        decision,
        html,
    )


def summarise(
    rows: Mapping[str, Predictions],
    comparison: Comparison,
    calibrator: Any,
    title: Any,
    decision: Decision | None,
) -> dict[str, Any]:
    """Collect the contents of the page as numbers, strings and lists."""
    first = next(iter(rows.values()))
    views = charts.views(rows, comparison.evaluations)
    fit = None if calibrator is None else summary.describe_calibrator(calibrator, first)
    sentences = summary.headline(views[0], comparison)
    numbers = {
        name: _finite_numbers(one.to_dict(limits=False))
        for name, one in comparison.evaluations.items()
    }
    decision_page = None
    if decision is not None:
        decision_page = sections.decisions(decision, comparison)
    curve_charts = []
    if fit and fit["curve"]:
        curve_charts = charts.calibrator_charts(fit, views[0])
    training = None
    if calibrator is not None and summary.has_training_rows(calibrator, rows):
        training = TRAINING_ROWS
    return {
        "title": "Calibration report" if title is None else title,
        "headline": [
            (list(rows).index(name), sentence) for name, sentence in sentences
        ],
        "recommendation": comparison.recommendation if len(rows) > 1 else None,
        "training": training,
        "leave_it": comparison.recommended == comparison.reference,
        "facts": summary.facts(comparison, first),
        "grouping": comparison.grouping,
        "grouped": bool(comparison.grouping),
        "sets": list(rows),
        "level": percent(comparison.level),
        "n_classes": len(first.classes),
        "table": summary.table(comparison),
        "scale": charts.starting_scale(views[0]),
        "views": [charts.reliability_charts(view) for view in views],
        "by_segment": sections.by_segment(rows, comparison),
        "decisions": decision_page,
        "losses": summary.losses(comparison),
        "judged": comparison.evaluations,
        "certainty": summary.certainty(views[0], comparison),
        "fit": fit,
        "curve_charts": curve_charts,
        "versions": summary.versions(),
        "fingerprints": summary.fingerprints(rows),
        "evaluations": numbers,
    }


def _finite_numbers(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers as JSON has them: None if they are unknown."""
    return {
        key: value if math.isfinite(value) else None for key, value in numbers.items()
    }


def render(page: dict[str, Any]) -> str:
    """Render the page to HTML, with style, script, charts and numbers."""
    templates = files("calspline.reporting") / "templates"
    script, style = (
        Markup((templates / name).read_text(encoding="utf-8"))
        for name in ("report.js", "report.css")
    )
    # The browser runs this script and no other.
    script_hash = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = template_environment().get_template("report.html")
    return template.render(page, script=script, style=style, script_hash=script_hash)


@cache
def template_environment() -> Environment:
    """Templates that escape all values and reject undefined names and NaN."""
    layout: dict[str, Any] = {
        "trim_blocks": True,
        "lstrip_blocks": True,
        "keep_trailing_newline": True,
    }
    loader = PackageLoader("calspline.reporting")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, **layout
    )
    environment.filters |= {
        "pixels": charts.pixels,
        "number": format_number,
        "precise_percent": precise_percent,
    }
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "separators": (",", ":"),
    }
    return environment
