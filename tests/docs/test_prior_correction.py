"""The recipes of docs/howto/imbalance.md lead to the true probabilities. They are read from the page itself."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit, rel_entr
from scipy.stats import kstest, norm

from calspline import SplineCalibrator, evaluate, export, load, save

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "imbalance.md"


@pytest.fixture(scope="module")
def page():
    """The functions that the page defines."""
    blocks = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    tree = ast.parse("\n".join(blocks))
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef)
    ]
    names = {}
    exec(compile(tree, str(PAGE), "exec"), names)
    return names


def world(n, seed):
    """Scores that are off, the true log-odds given the score, and what happened."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1.5, n)
    truth = 1.5 * x - 0.4 * x**2 / (1 + np.abs(x)) - 3
    return expit(3 * x + 1), truth, rng.random(n) < expit(truth)


POSITIVES, NEGATIVES = 0.7, 0.03
KEPT = {False: np.exp(-2.5), True: 1.0}


@pytest.fixture(scope="module")
def sample():
    scores, _, happened = world(400_000, 0)
    kept = np.random.default_rng(1).random(400_000) < np.where(
        happened, POSITIVES, NEGATIVES
    )
    return scores[kept], happened[kept]


@pytest.fixture(scope="module")
def judge():
    scores, truth, _ = world(5_000, 2)
    return scores, truth


def test_a_shifted_calibrator_recovers_the_truth_from_a_re_sampled_fit(sample, judge):
    scores, truth = judge
    in_sample = SplineCalibrator().fit(*sample)
    off = logit(in_sample.calibrate(scores)) - truth
    assert np.median(off) == pytest.approx(np.log(POSITIVES / NEGATIVES), abs=0.1)
    right = in_sample.shifted(kept={False: NEGATIVES, True: POSITIVES})
    error = logit(right.calibrate(scores)) - truth
    assert np.sqrt(np.mean(error**2)) < 0.08


def test_the_shift_is_exact_and_moves_the_interval_with_the_curve(sample, judge):
    scores, _ = judge
    in_sample = SplineCalibrator().fit(*sample)
    right = in_sample.shifted(kept=KEPT)
    np.testing.assert_allclose(
        logit(right.calibrate(scores)),
        logit(in_sample.calibrate(scores)) - 2.5,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        logit(right.interval(scores)),
        logit(in_sample.interval(scores)) - 2.5,
        atol=1e-9,
    )


def test_a_shifted_calibrator_is_saved_and_exported_as_any_other(
    sample, judge, tmp_path
):
    scores, _ = judge
    right = SplineCalibrator().fit(*sample).shifted(kept=KEPT)
    save(right, tmp_path / "right.json")
    np.testing.assert_array_equal(
        load(tmp_path / "right.json").calibrate(scores), right.calibrate(scores)
    )
    code = {}
    exec(export.to_python(right), code)
    assert code["calibrate"](0.3) == pytest.approx(right.calibrate([0.3])[0], abs=1e-12)


def test_the_calibrator_that_is_shifted_stays_as_it_was(sample):
    in_sample = SplineCalibrator().fit(*sample)
    before = in_sample.calibrate([0.3])
    in_sample.shifted(kept=KEPT)
    assert in_sample.calibrate([0.3]) == before


def test_weights_recover_the_truth_too(sample, judge):
    scores, truth = judge
    weight = np.where(sample[1], 1 / POSITIVES, 1 / NEGATIVES)
    fit = SplineCalibrator(weights="importance").fit(*sample, weight)
    # Where there are few rows the fit is cautious, so errors count as the log-loss
    # does.
    p = expit(truth)
    q = fit.calibrate(scores)
    assert np.mean(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q)) < 1.5e-4


def test_classes_sampled_at_different_rates_get_the_posterior_of_the_world(page):
    """Bayes' rule with the priors of the world and of the sample, for three normal distributions."""
    x = np.linspace(-4, 4, 101)
    density = norm.pdf(x[:, None], loc=[-1.0, 0.0, 2.0])
    prior, rates = np.array([0.9, 0.08, 0.02]), np.array([0.05, 0.5, 1.0])

    def posterior(prior):
        joint = density * prior
        return joint / joint.sum(axis=1, keepdims=True)

    np.testing.assert_allclose(
        page["corrected_classes"](posterior(prior * rates), rates),
        posterior(prior),
        atol=1e-12,
    )


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.7])
def test_the_new_base_rate_is_found_without_labels(page, rate):
    """Scores are normal given the class, so that the old posterior is known without a fit."""
    rng = np.random.default_rng(3)
    y = rng.random(50_000) < rate
    x = rng.normal(np.where(y, 1.0, -1.0))
    old = expit(2 * x + logit(0.1))
    assert page["rate_without_labels"](old, 0.1) == pytest.approx(rate, abs=0.01)


@pytest.mark.slow
def test_probabilities_shifted_into_the_sample_are_found_right_there():
    """How the page says to judge on re-sampled rows: the test of calibration then holds its size."""
    rng = np.random.default_rng(4)
    p_values, unshifted = [], []
    for _ in range(40):
        truth = rng.normal(-4, 1.5, 20_000)
        happened = rng.random(20_000) < expit(truth)
        kept = rng.random(20_000) < np.where(happened, 1.0, 0.02)
        p_values.append(
            evaluate(
                happened[kept], expit(truth[kept] - np.log(0.02))
            ).calibration_p_value
        )
        unshifted.append(
            evaluate(happened[kept], expit(truth[kept])).calibration_p_value
        )
    assert max(unshifted) < 0.01
    assert kstest(p_values, "uniform").pvalue > 0.01
