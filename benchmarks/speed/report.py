"""Results as Markdown, which reads well in a terminal too."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import calspline
from benchmarks.speed.data import VARIANTS
from benchmarks.speed.memory import Megabytes
from benchmarks.speed.peers import PACKAGES, PEERS
from benchmarks.speed.results import Results, checks
from benchmarks.speed.timing import Seconds
from benchmarks.tables import table

OURS = "calspline"


def render(results: Results, *, command: str, cap: float, repeats: int) -> str:
    """The whole page."""
    parts = [
        "# Speed and memory",
        f"Made by `{command}`: one thread, "
        f"best of at least {repeats} rounds, in which all methods take turns, "
        f"{os.cpu_count()} CPUs. {_versions()}.",
        f"Scores: {VARIANTS['smooth']}. All methods have their defaults. "
        f'"-" is a size left out because a fit would take more than {cap:g} s, judging from the size before.',
        "## Targets",
        _checks(results),
        "## Fit, milliseconds",
        _times(results, "fit"),
        "One pass is `log(p) - log1p(-p)` on the whole array and one weighted `bincount`, the cells being known; "
        "most of it is `log1p`. The quick pass has `log(p / (1 - p))` instead. A fit takes its logarithm the quick "
        "way and in chunks, so it can be faster than the one pass.",
        "## Predict, milliseconds",
        _times(results, "predict"),
        "## Time of calspline as a share of the other's",
        _ratios(results),
    ]
    if results.megabytes:
        parts += [
            "## Peak memory, MB",
            "Beyond the input for a fit, beyond input and output for a predict, each method in a fresh process: "
            "the larger of traced allocations and growth of the resident set.",
            _memory(results),
        ]
    if results.variants:
        parts += ["## Other scores, milliseconds", _variants(results)]
    return "\n\n".join(parts) + "\n"


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(
                f"{package} {calspline.__version__ if package == OURS else version(package)}"
            )
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _checks(results: Results) -> str:
    rows = [
        [check.what, _plain(check.value), f"<= {check.limit:g}", check.verdict]
        for check in checks(results)
    ]
    return table(["", "measured", "target", ""], rows)


def _times(results: Results, what: str) -> str:
    sizes = sorted(results.seconds)
    rows = []
    for name in PEERS:
        times = [results.seconds[n].get(name) for n in sizes]
        if any(times):
            rows.append(
                [name, *(_milliseconds(getattr(t, what) if t else None) for t in times)]
            )
    if what == "fit":
        rows.append(
            ["one pass", *(_milliseconds(results.passes[n].accurate) for n in sizes)]
        )
        rows.append(
            ["quick pass", *(_milliseconds(results.passes[n].quick) for n in sizes)]
        )
    return table(["rows", *map(_rows, sizes)], rows)


def _ratios(results: Results) -> str:
    sizes = sorted(results.seconds)
    rows = []
    for what in Seconds._fields:
        for name in PEERS:
            pairs = [
                (results.seconds[n].get(OURS), results.seconds[n].get(name))
                for n in sizes
            ]
            if name != OURS and any(other for _, other in pairs):
                shares = [
                    _plain(getattr(a, what) / getattr(b, what) if a and b else None)
                    for a, b in pairs
                ]
                rows.append([f"{what} / {name}", *shares])
        if what == "fit":
            fits = [(results.seconds[n][OURS].fit, results.passes[n]) for n in sizes]
            rows.append(
                [
                    "fit / one pass",
                    *(_plain(fit / passes.accurate) for fit, passes in fits),
                ]
            )
            rows.append(
                [
                    "fit / quick pass",
                    *(_plain(fit / passes.quick) for fit, passes in fits),
                ]
            )
    return table(["rows", *map(_rows, sizes)], rows)


def _memory(results: Results) -> str:
    columns = [
        (what, n) for what in Megabytes._fields for n in sorted(results.megabytes)
    ]
    rows = []
    for name in PEERS:
        found = [(what, results.megabytes[n].get(name)) for what, n in columns]
        if any(m for _, m in found):
            rows.append(
                [name, *(_whole(getattr(m, what) if m else None) for what, m in found)]
            )
    return table(["rows", *(f"{what}, {_rows(n)}" for what, n in columns)], rows)


def _variants(results: Results) -> str:
    rows = []
    for (variant, n), times in results.variants.items():
        for name, t in times.items():
            rows.append(
                [
                    VARIANTS[variant],
                    _rows(n),
                    name,
                    _milliseconds(t.fit),
                    _milliseconds(t.predict),
                ]
            )
    return table(["scores", "rows", "method", "fit", "predict"], rows)


def _rows(n: int) -> str:
    for size, letter in ((1_000_000, "M"), (1000, "k")):
        if n % size == 0:
            return f"{n // size}{letter}"
    return str(n)


def _milliseconds(seconds: float | None) -> str:
    return _plain(None if seconds is None else 1000.0 * seconds)


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value < 10.0 else f"{value:,.0f}"


def _plain(value: float | None) -> str:
    """Three digits, and no exponent."""
    return (
        "-" if value is None else f"{value:,.0f}" if value >= 1000.0 else f"{value:.3g}"
    )
