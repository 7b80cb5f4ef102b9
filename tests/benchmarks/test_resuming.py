import numpy as np
import pytest
from benchmarks.arena.experiments import Experiment
from benchmarks.arena.live import Journal, Result, judge, run_all
from benchmarks.arena.rivals import BOTH, Rival, installed
from benchmarks.arena.sources import sources
from benchmarks.paper import cache


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("CALSPLINE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def some_result(method):
    return Result("binary", "adult__rf", method, 0.3, 0.1, 0.9, 0.01)


def test_what_was_made_once_is_read_the_second_time(place):
    made = []

    def make():
        made.append(1)
        return {"p": np.array([0.25, 0.75])}

    first, second = cache.kept("folder/name", make), cache.kept("folder/name", make)
    assert len(made) == 1
    np.testing.assert_array_equal(first["p"], second["p"])


def test_making_that_fails_leaves_nothing_to_be_read(place):
    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.kept("name", fail)
    assert not cache.has("name")
    np.testing.assert_array_equal(
        cache.kept("name", lambda: {"p": np.ones(2)})["p"], np.ones(2)
    )


def test_a_journal_goes_on_after_a_line_that_was_cut(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.add(some_result("a"))
    journal.add(some_result("b"))
    path.write_text(path.read_text()[:-15])
    again = Journal(path)
    assert list(again.results) == [("adult__rf", "a")]
    again.add(some_result("c"))
    assert list(Journal(path).results) == [("adult__rf", "a"), ("adult__rf", "c")]


def test_results_in_the_journal_are_not_computed_again(place):
    rng = np.random.default_rng(0)
    second = rng.uniform(size=50)
    arrays = {
        "probs": np.column_stack([1.0 - second, second]),
        "y": rng.random(50) < second,
    }
    np.savez(
        place / "a__b.npz",
        **{f"{key}_{part}": v for key, v in arrays.items() for part in ("cal", "test")},
    )
    calls = []

    def unchanged(p, y, test):
        calls.append(1)
        return test

    rival = Rival("unchanged", "numpy", "numpy", BOTH, unchanged)
    path = place / "journal.jsonl"
    first = run_all(sources(place), [rival], Journal(path))
    second = run_all(sources(place), [rival], Journal(path))
    assert len(calls) == 1
    assert (
        first.set_index("method")["log_loss"].to_dict()
        == second.set_index("method")["log_loss"].to_dict()
    )
    assert (
        first.set_index("method").loc["unchanged", "log_loss"]
        == first.set_index("method").loc["raw", "log_loss"]
    )


@pytest.mark.parametrize("answer", ["raise", "nan"])
def test_a_method_that_fails_loses_the_experiment_and_says_why(answer):
    p = np.array([[0.4, 0.6], [0.7, 0.3]])
    y = np.array([1, 0])

    def fail(p, y, test):
        if answer == "raise":
            raise RuntimeError("singular")
        return np.full_like(test, np.nan)

    found = judge(
        Rival("bad", "numpy", "numpy", BOTH, fail),
        Experiment(p, y, p, y),
        "binary",
        "a__b",
    )
    assert found.log_loss == np.inf
    assert found.problem in (
        "RuntimeError: singular",
        "ValueError: 2 rows without finite probabilities",
    )


def test_a_package_that_is_not_there_is_named_and_the_rest_runs():
    there = Rival("there", "numpy", "numpy", BOTH, lambda p, y, test: test)
    absent = Rival(
        "absent", "no-such-package", "no_such_package", BOTH, lambda p, y, test: test
    )
    found = installed([there, absent])
    assert found.rivals == [there]
    assert list(found.versions) == ["numpy"]
    assert "no_such_package" in found.missing["no-such-package"]
