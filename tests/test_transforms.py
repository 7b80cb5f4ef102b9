import numpy as np
import pytest
from scipy.special import logit

from calspline.transforms import (
    LOGIT_CLIP,
    Transform,
    choose_epsilon,
    epsilon_from_log_odds,
    log_odds,
    log_odds_from_pair,
)

ALL = [
    Transform("identity"),
    Transform("logit"),
    Transform("asinh_logit"),
    Transform("compact_logit", 0.1),
    Transform("compact_logit", 1e-6),
]
EPSILONS = [0.3, 0.1, 0.01, 1e-4, 1e-12]


def test_log_odds_are_scipys_where_those_are_finite():
    p = np.concatenate([10.0 ** np.arange(-290, 0, 10.0), [0.25, 0.5, 0.75, 0.999999]])
    np.testing.assert_allclose(log_odds(p), logit(p), rtol=1e-14, atol=1e-15)


def test_log_odds_of_exact_0_and_1_and_denormals_are_finite():
    u = log_odds([0.0, 5e-324, 1.0 - 2**-53, 1.0])
    assert np.isfinite(u).all()
    assert u[0] == u[1] == np.log(1e-300)
    assert u[2] < u[3]


def test_two_columns_keep_what_one_rounds_away():
    assert log_odds_from_pair([1e-30], [1.0])[0] == pytest.approx(30 * np.log(10))
    assert log_odds_from_pair([1.0], [1e-30])[0] == pytest.approx(-30 * np.log(10))
    p = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(
        log_odds_from_pair(1 - p, p), logit(p), rtol=1e-12, atol=1e-15
    )
    assert np.isfinite(log_odds_from_pair([0.0, 1.0], [1.0, 0.0])).all()


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_compact_logit_is_the_printed_formula(epsilon):
    x = np.linspace(epsilon, 1 - epsilon, 101)[1:-1]
    expected = (1 - 2 * epsilon) / (2 * np.log((1 - epsilon) / epsilon)) * np.log(
        x / (1 - x)
    ) + 0.5
    np.testing.assert_allclose(
        Transform("compact_logit", epsilon)(x), expected, rtol=1e-12
    )
    outside = np.array([0.0, epsilon / 2, 1 - epsilon / 2, 1.0])
    np.testing.assert_array_equal(Transform("compact_logit", epsilon)(outside), outside)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_compact_logit_is_fixed_at_epsilon_one_half_and_one_minus_epsilon(epsilon):
    fixed = np.array([0.0, epsilon, 0.5, 1 - epsilon, 1.0])
    G = Transform("compact_logit", epsilon)
    rounding = 2e-16 * G.derivative(fixed)  # of 1 - epsilon
    assert np.all(np.abs(G(fixed) - fixed) <= rounding + 1e-15 * fixed)


@pytest.mark.parametrize("epsilon", [1e-16, 1e-17, 1e-20])
def test_one_stays_one_where_epsilon_is_too_small_to_be_subtracted_from_it(epsilon):
    assert Transform("compact_logit", epsilon)(np.array([1.0]))[0] == 1.0


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_compact_logit_is_continuous_and_maps_the_unit_interval_onto_itself(
    epsilon,
):
    G = Transform("compact_logit", epsilon)
    for edge in (epsilon, 1 - epsilon):
        below, above = G([np.nextafter(edge, 0), np.nextafter(edge, 1)])
        assert abs(above - below) <= 1e-15 * (1 + G.derivative([edge])[0])
    grid = G(np.linspace(0, 1, 100_001))
    assert (grid[0], grid[-1]) == (0.0, 1.0)
    assert np.all(np.diff(grid) > 0)
    near_one = G(1 - np.geomspace(1e-1, 1e-16, 5000))
    assert np.all(np.diff(near_one) >= 0)


@pytest.mark.parametrize("transform", ALL, ids=lambda t: f"{t.name}-{t.epsilon}")
def test_transforms_are_increasing_and_inverted(transform):
    p = np.sort(np.random.default_rng(0).uniform(1e-4, 1 - 1e-4, 500))
    x = transform(p)
    assert np.all(np.diff(x) > 0)
    np.testing.assert_allclose(transform.inverse(x), p, rtol=1e-9)


@pytest.mark.parametrize("transform", ALL, ids=lambda t: f"{t.name}-{t.epsilon}")
def test_derivatives_agree_with_finite_differences(transform):
    p = np.array([0.02, 0.05, 0.2, 0.45, 0.7, 0.97])
    h = 1e-7
    numerical = (transform(p + h) - transform(p - h)) / (2 * h)
    np.testing.assert_allclose(transform.derivative(p), numerical, rtol=1e-5)


@pytest.mark.parametrize("transform", ALL, ids=lambda t: f"{t.name}-{t.epsilon}")
def test_log_odds_lead_to_the_same_place_as_scores(transform):
    p = np.linspace(0.001, 0.999, 200)
    np.testing.assert_allclose(
        transform.from_log_odds(log_odds(p)), transform(p), rtol=1e-12
    )


def test_the_logit_is_clipped_and_flat_beyond():
    logit_transform = Transform("logit")
    assert logit_transform([0.0, 1e-12, 1.0]).tolist() == [
        -LOGIT_CLIP,
        -LOGIT_CLIP,
        LOGIT_CLIP,
    ]
    assert logit_transform.derivative([1e-12])[0] == 0.0


def test_the_asinh_logit_is_the_log_odds_in_the_middle_and_their_logarithm_far_out():
    t = Transform("asinh_logit")
    assert t.from_log_odds(np.array([0.01]))[0] == pytest.approx(0.01, rel=1e-5)
    assert t.from_log_odds(np.array([500.0]))[0] == pytest.approx(
        5 * np.log(2 * 500 / 5), rel=1e-4
    )


@pytest.mark.parametrize(
    ("scores", "epsilon"),
    [
        ([0.5, 0.97], 1e-3),  # min(1 - p) = 0.03, r = -2
        ([0.5, 0.9], 1e-2),
        ([0.2, 0.3], 1e-2),
        ([0.0], 0.1),  # 1 - p = 1, r = 0
        ([0.999, 1.0], 1e-4),  # exact ones are ignored
        ([1e-9, 0.5], 1e-2),  # scores near 0 have no say
        ([1.0, 1.0], 0.1),
    ],
)
def test_epsilon_is_chosen_as_printed(scores, epsilon):
    assert choose_epsilon(scores) == pytest.approx(epsilon)
    below_one = [s for s in scores if s < 1]
    highest = log_odds(max(below_one)) if below_one else -np.inf
    assert epsilon_from_log_odds(float(highest)) == pytest.approx(epsilon)


def test_wrong_names_and_epsilons_are_errors():
    with pytest.raises(ValueError, match="transform must be one of"):
        Transform("probit")
    for epsilon in (None, 0.0, 0.5, -1.0):
        with pytest.raises(ValueError, match="epsilon"):
            Transform("compact_logit", epsilon)
