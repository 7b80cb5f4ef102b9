"""A sample of what ``python -m benchmarks.stress`` compares with simple methods."""

import numpy as np
import pytest
from benchmarks.stress.adversary import Verdict, verdict_at
from benchmarks.stress.page import against_simple_methods

SEEDS = {
    "segments": [0, 1, 2, 3],
    "confounded columns": [0, 1, 2],
    "weights": [0, 1, 2, 3],
    "one curve": [0, 15, 228, 475],
    "small logits": [3],
    "segments of classes": [0, 1],
}


@pytest.mark.parametrize(
    ("family", "seed"), [(each, seed) for each in SEEDS for seed in SEEDS[each]]
)
def test_no_fit_is_behind_a_simple_method_without_a_warning(family, seed):
    verdict = verdict_at(family, seed)
    assert not verdict.failed, (verdict.name, verdict.harm, verdict.best)


def a_verdict(ours, warned=()):
    return Verdict("groups", "groups", 0, ours, {"raw": 0.5}, 0.0, ("by",), warned)


def test_a_result_that_is_far_behind_fails_unless_it_warned():
    assert a_verdict(0.52).failed
    assert not a_verdict(0.505).failed
    assert not a_verdict(0.52, ("one group has",)).failed
    assert a_verdict(0.52, ("one group has",)).harmed
    assert a_verdict(np.nan).failed


def test_a_family_that_warned_of_every_fit_has_a_line():
    lines = "\n".join(against_simple_methods([a_verdict(0.52, ("one group",))]))
    row = next(line for line in lines.splitlines() if line.startswith("| groups"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == "1"
    assert cells[-3:] == ["1", "1", "0"]
