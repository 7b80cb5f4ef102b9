import json

from benchmarks.ledger.__main__ import STORED, line
from benchmarks.ledger.entries import ENTRIES
from benchmarks.ledger.measure import Ratio, measure


def test_every_entry_is_stored_and_nothing_else():
    stored = json.loads(STORED.read_text())
    assert list(stored) == list(ENTRIES)
    assert all(ratio > 0.0 for ratio in stored.values())


def test_both_calls_take_turns():
    calls = []
    ratio = measure(
        lambda: calls.append("ours"), lambda: calls.append("other"), seconds=0
    )
    assert {"ours", "other"} == set(calls)
    assert ratio.value > 0.0


def test_a_change_is_given_in_percent_and_marked_if_it_is_large():
    assert line("fit", 2.0, Ratio(2.1, 0.001)) == ["fit", "2", "2.1", "+5%", "1 ms"]
    assert line("fit", 2.0, Ratio(1.0, 0.001))[3] == "-50% !"
    assert line("fit", None, Ratio(1.0, 0.001))[1:4] == ["", "1", ""]
