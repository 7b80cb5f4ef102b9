import warnings

import numpy as np
import pytest
from benchmarks.faults.__main__ import ASKS_FOR_ERROR, passed, tried
from benchmarks.faults.judge import answers, proper, refuses, warns
from benchmarks.faults.libraries import LIBRARIES
from benchmarks.faults.probes import PROBES
from tests.faults.contract import CASES


@pytest.mark.parametrize(
    "library",
    [each for each in LIBRARIES if each.package == "calspline"],
    ids=lambda one: one.name,
)
def test_calspline_gives_what_its_contract_asks_in_every_probe(library):
    found = tried(library)
    assert len(found) >= 61
    assert [name for name, (word, _) in found.items() if not passed(name, word)] == []


def test_probes_are_of_cases_of_the_contract():
    assert {case for case, _, _ in PROBES.values()} <= set(CASES)
    assert {
        case for case in ASKS_FOR_ERROR if "error" not in CASES[case][2].lower()
    } == set()


def test_the_judge_tells_answers_and_errors_apart():
    def raises(error):
        raise error

    assert refuses(lambda: np.array([0.5]), "nan").word == "wrong"
    assert refuses(lambda: np.array([0.5]), "nan", proper).word == "right"
    assert refuses(lambda: raises(ValueError("there is a NaN")), "nan").word == "clear"
    assert refuses(lambda: raises(ValueError("bad input")), "nan").word == "unclear"
    assert refuses(lambda: raises(KeyError("nan")), "nan").word == "unclear"
    assert refuses(lambda: raises(RuntimeError("nan")), "nan").word == "clear"
    assert (
        refuses(
            lambda: raises(AttributeError("'list' object has no attribute 'shape'")),
            "list",
        ).word
        == "unclear"
    )
    assert answers(lambda: np.array([np.nan]), proper).word == "wrong"
    assert answers(lambda: np.array([1.2]), proper).word == "wrong"
    assert answers(lambda: np.array([0.2]), proper).word == "right"
    assert (
        answers(lambda: raises(ValueError("two classes")), proper, "class").word
        == "clear"
    )


def test_the_judge_hears_warnings():
    def says(message):
        warnings.warn(message, stacklevel=1)
        return np.array([0.2])

    assert warns(lambda: says("scores fall"), "fall").word == "right"
    assert warns(lambda: says("something else"), "fall").word == "wrong"
    assert warns(lambda: np.array([0.2]), "fall").word == "wrong"
