"""The page about CalArena shows what is published, and its measures are CalArena's."""

import numpy as np
import pytest

from benchmarks import calarena


def test_the_measures_of_a_small_example():
    p = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    found = calarena.measures(p, np.array([0, 1, 1]))
    assert found["log_loss"] == pytest.approx(-np.log([0.8, 0.4, 0.7]).mean())
    assert found["brier"] == pytest.approx(2 * np.mean([0.04, 0.36, 0.09]))
    assert found["accuracy"] == pytest.approx(2 / 3)
    # Bins of 1/15: 0.8 is in the twelfth, 0.6 in the ninth, 0.7 in the eleventh.
    assert found["ece"] == pytest.approx((0.2 + 0.6 + 0.3) / 3)


def test_the_page_has_every_published_method_by_log_loss():
    page = (calarena.HERE / "CALARENA.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")][1:]
    shown = {}
    for line in lines:
        _, method, loss, brier, ece, accuracy, _ = (
            cell.strip(" *") for cell in line.strip("|").split("|")
        )
        shown[method] = tuple(map(float, (loss, brier, ece, accuracy)))
    published = calarena.published()
    assert set(shown) == {*published, "calspline"}
    for method, row in published.items():
        stored = tuple(row[name] for name in calarena.MEASURES)
        assert shown[method] == pytest.approx(stored, abs=6e-5)
    losses = [values[0] for values in shown.values()]
    assert losses == sorted(losses)
