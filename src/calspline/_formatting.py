"""Formatting of numbers, percentages, p-values, durations and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

Row = Sequence[str]

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_number(value: float) -> str:
    """Format a number with four decimals, or two significant digits if it is small.

    >>> format_number(0.25), format_number(-0.000061234), format_number(float("nan"))
    ('0.2500', '-0.000061', '-')
    """
    if not math.isfinite(value):
        return "-" if math.isnan(value) else str(value)
    if value == 0.0 or abs(value) >= 0.001:
        return f"{value:.4f}"
    if abs(value) < 1e-5:
        return f"{value:.2g}"
    return f"{value:.{decimals(abs(value))}f}"


def scientific(value: float) -> str:
    """Format a number with two significant digits, if necessary as a power of ten.

    >>> scientific(8.53e-5), scientific(1e6), scientific(0.0342)
    ('8.5·10⁻⁵', '10⁶', '0.034')
    """
    mantissa, exponent = f"{value:.1e}".split("e")
    if -4 < int(exponent) < 4:
        return f"{value:.2g}"
    power = "10" + str(int(exponent)).translate(SUPERSCRIPTS)
    return power if mantissa == "1.0" else f"{mantissa.removesuffix('.0')}·{power}"


def with_error(value: float, error: float) -> str:
    """Format an estimate with its standard error, if it has one.

    >>> with_error(0.345, 0.016), with_error(float("inf"), float("nan"))
    ('0.345 ± 0.016', 'inf')
    """
    return format_number(value) if math.isnan(error) else f"{value:.3f} ± {error:.3f}"


SMALLEST_SIMULATED = 0.001
"""The smallest p-value of a test that simulates 999 data sets."""


def p_value(p: float) -> str:
    """Format a p-value with three decimals.

    >>> p_value(0.04), p_value(1e-9), p_value(0.001)
    ('0.040', '< 0.001', '≤ 0.001')
    """
    if math.isnan(p):
        return "-"
    if math.isclose(p, SMALLEST_SIMULATED, rel_tol=1e-12):
        return "≤ 0.001"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_equals(p: float) -> str:
    """Format a p-value for a sentence.

    >>> p_equals(0.04), p_equals(1e-9), p_equals(0.001)
    ('p = 0.040', 'p < 0.001', 'p ≤ 0.001')
    """
    shown = p_value(p)
    return f"p {shown}" if shown[0] in "<≤" else f"p = {shown}"


def percent(share: float) -> str:
    """Format a round share, such as a confidence level, as an exact percentage.

    >>> percent(0.95), percent(0.001), percent(1 - 1e-6)
    ('95%', '0.1%', '99.9999%')
    """
    return f"{100.0 * share:g}%"


def rounded_percent(share: float) -> str:
    """Format a share for a sentence.

    A whole percentage, or two significant digits of the distance from 0 or 1.

    >>> rounded_percent(0.736), rounded_percent(0.9997), rounded_percent(0.00071)
    ('74%', '99.97%', '0.071%')
    """
    least = min(share, 1.0 - share)
    digits = 0 if least >= 0.0195 or least <= 0.0 else decimals(100.0 * least)
    shown = f"{100.0 * share:.{digits}f}"
    return f"{shown.rstrip('0').rstrip('.') if digits else shown}%"


def decimals(value: float) -> int:
    """Number of decimals that shows two significant digits, for a number of at least 0.

    >>> decimals(25.0), decimals(2.5), decimals(0.025), decimals(0.0)
    (0, 1, 3, 0)
    """
    if value == 0.0:
        return 0
    return max(0, 1 - math.floor(math.log10(value)))


def precise_percent(share: float) -> str:
    """Format a share for a table.

    One decimal, more near 0 and 1; only exact values are shown as 0% and 100%.

    >>> precise_percent(0.736), precise_percent(0.0001), precise_percent(1e-9)
    ('73.6%', '0.01%', '< 0.001%')
    """
    least = min(share, 1.0 - share)
    if 0.0 < least < 0.000005:
        return "< 0.001%" if share < 0.5 else "> 99.999%"
    digits = 1 if least >= 0.0005 or least <= 0.0 else 2 if least >= 0.00005 else 3
    return f"{100.0 * share:.{digits}f}%"


def duration(seconds: float) -> str:
    """Format a duration in a suitable unit.

    >>> duration(3), duration(600), duration(36_000)
    ('3 s', '10 min', '10.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def rows_in_groups(n_rows: int, n_groups: int | None) -> str:
    """Number of rows and groups, as text.

    >>> rows_in_groups(7424, 32), rows_in_groups(100, None)
    ('7,424 rows in 32 groups', '100 rows')
    """
    rows = "1 row" if n_rows == 1 else f"{n_rows:,} rows"
    return rows if n_groups is None else f"{rows} in {n_groups:,} groups"


ALMOST_ALL = 0.9


def grouping(n_rows: int, n_groups: int | None, n_effective: float) -> str:
    """Effective sample size of grouped rows, as a sentence; empty without groups.

    >>> grouping(7424, 32, 63.2)
    'The effective sample size of 7,424 rows in 32 groups is about 63.'
    """
    if n_groups is None:
        return ""
    rows = rows_in_groups(n_rows, n_groups)
    if n_effective > ALMOST_ALL * n_rows:
        return f"Rows within a group are nearly independent ({rows})."
    effective = "less than 1"
    if n_effective >= 1.0:
        effective = f"about {float(f'{n_effective:.2g}'):,.0f}"
    return f"The effective sample size of {rows} is {effective}."


def short_list(values: Sequence[object], most: int = 6) -> str:
    """List values in a sentence, at most one line long.

    >>> short_list(["a", "b", "c"], 2)
    "'a', 'b' and 1 more"
    """
    return ", ".join(map(repr, values[:most])) + (
        f" and {len(values) - most} more" if len(values) > most else ""
    )


def first_few(shown: Sequence[str], most: int = 6) -> str:
    """List the first of several strings in a sentence."""
    more = ", ..." if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def on_one_line(text: str) -> str:
    r"""Text with unprintable characters escaped, such as a line break in a name.

    >>> print(on_one_line("two\nlines"))
    two\nlines
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def text_table(rows: Sequence[Row], header: Row | None = None, total: int = 0) -> str:
    """Align the columns of a table.

    The first column is aligned left, the others right; ``total`` is the number of rows
    if only the first are given.
    """
    given = rows if header is None else [header, *rows]
    lines = [[on_one_line(cell) for cell in row] for row in given]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = []
    for first, *others in lines:
        cells = [
            first.ljust(widths[0]),
            *(cell.rjust(w) for cell, w in zip(others, widths[1:], strict=True)),
        ]
        shown.append("  ".join(cells))
    if header is not None:
        shown.insert(1, "-" * len(shown[0]))
    more = [f"... and {total - len(rows)} more"] if total > len(rows) else []
    return "\n".join([*(line.rstrip() for line in shown), *more])


def html_table(
    rows: Sequence[Row], header: Row | None = None, caption: str = ""
) -> str:
    """Format a table in HTML, with everything escaped."""

    def line(cells: Row, tag: str) -> str:
        first, *others = cells
        right = ' style="text-align:right"'
        inner = [
            f'<th scope="{"col" if tag == "th" else "row"}" '
            f'style="text-align:left">{escape(first)}</th>'
        ]
        inner += [f"<{tag}{right}>{escape(cell)}</{tag}>" for cell in others]
        return f"<tr>{''.join(inner)}</tr>"

    head = "" if header is None else f"<thead>{line(header, 'th')}</thead>"
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f"<table>{title}{head}"
        f"<tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"
    )
