"""The result page of the nasty data."""

from __future__ import annotations

from collections import Counter

import numpy as np

from benchmarks.stress.precise import MAX_APART
from benchmarks.stress.trial import (
    MAX_HARM,
    MAX_HARM_AVERAGED,
    MAX_HARM_PER_CLASS,
    MAX_STEPS,
    PER_ROW,
    PER_ROW_MONOTONE,
    Outcome,
)
from benchmarks.tables import table


def page(outcomes: list[Outcome], apart: dict[str, float], sample_rows: int) -> str:
    """The result as Markdown."""
    shapes = sorted(Counter(outcome.name.split(",")[0] for outcome in outcomes))
    rows = [outcome.n for outcome in outcomes]
    failed = sum(bool(outcome.problems) for outcome in outcomes)
    limited = sum(outcome.steps >= MAX_STEPS for outcome in outcomes)
    worst = max(apart, key=lambda name: apart[name])
    close = sum(value < 1e-12 for value in apart.values())
    return "\n".join(
        [
            "# Fits of nasty data",
            "",
            f"`python -m benchmarks.stress`: {len(outcomes) // 2:,} random data sets of {len(shapes)} shapes, "
            f"{min(rows)} to {max(rows):,} rows, each fitted with",
            f"the defaults and with one other set: {len(outcomes):,} fits, **{failed} with anything wrong**.",
            "",
            "What has to hold of every fit:",
            "",
            "- no error but that of one margin among few rows in [0, 1], and no warning but documented ones: of equal "
            "scores, of scores or",
            "  classes that look reversed, of scores between 0 and 100, and of weights that do not sum to the rows;",
            "- `converged_`, after at most "
            f"{MAX_STEPS} Newton steps in any one fit, be it in the search for the smoothing or the last;",
            "- probabilities finite, inside (0, 1), summing to one, and monotone where asked;",
            f"- a loss on the fitted rows at most that of the base rate plus {MAX_HARM:g} nat "
            f"({MAX_HARM_AVERAGED:g} if averaged over priors), summed over all rows, beyond what the",
            f"  weak prior `0.1 (a^2 + b^2)` takes there; with three classes or more plus {MAX_HARM_PER_CLASS:g} nats "
            f"per class; and {PER_ROW:g} per row ({PER_ROW_MONOTONE:g} if monotone).",
            "",
            "Exempt from the last: Brier fits of scores that differ by single roundings, since a score goes through "
            "log-odds and back.",
            "",
            f"In {limited} fits the search had one that stopped at the limit of steps; the last fit converged in each.",
            "",
            _by_options(outcomes),
            "",
            f"Shapes: {', '.join(shapes)}.",
            "",
            "Labels follow the scores, separate them, contradict them, come in waves or at random, or one in ten "
            "thousand is positive.",
            "Weights are none, whole numbers, spread over twelve decades, or tiny.",
            "",
            "## Against sixty digits",
            "",
            f"Default fits of {len(apart)} data sets of {sample_rows} rows, next to the maximum of the penalised "
            "likelihood, found from its",
            f"definition in sixty digits: {close} agree to 1e-12 in probability, the farthest "
            f"({worst.split(': ')[1]}) to {apart[worst]:.1g}.",
            f"The limit is {MAX_APART:g}.",
            "",
        ]
    )


def _by_options(outcomes: list[Outcome]) -> str:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        name = ", ".join(f"{k}={v}" for k, v in outcome.options.items()) or "defaults"
        groups.setdefault(name, []).append(outcome)
    lines = []
    for name, members in sorted(groups.items()):
        steps = np.array([outcome.steps for outcome in members])
        failed = sum(bool(outcome.problems) for outcome in members)
        lines.append([name, f"{len(members)}", f"{failed}", f"{np.percentile(steps, 99):.0f}", f"{steps.max()}"])
    return table(["options", "fits", "failed", "steps, 99%", "steps, most"], lines)
