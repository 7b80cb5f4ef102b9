import numpy as np
import pytest

from calspline.fitting.fit import LOG_RATIOS, MAX_BEND, MIN_BEND, averaged_root


@pytest.fixture
def gaussian():
    """A Gaussian model with information ``H``, data ``b``, and a penalty on all but two coordinates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * [3, 2, 1, 0.5, 0.2, 0.1]
    H, b = X.T @ X, X.T @ rng.normal(size=60) * 2
    return H, b, np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0])


def at(H, b, penalty):
    covariance = np.linalg.inv(H + np.diag(penalty))
    return covariance, covariance @ b


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_it_is_the_average_over_fits_at_every_smoothing(gaussian, scale):
    H, b, S = gaussian
    chosen = 2.0
    covariance, u = at(H, b, chosen * S)
    root = averaged_root(np.linalg.cholesky(covariance), u, chosen * S, scale)
    covariances, moves, evidence = [], [], []
    for ratio in np.exp(LOG_RATIOS):
        smoothing = chosen * ratio
        C, fit = at(H, b, smoothing * S)
        bend = np.trace(C @ H) - 2.0
        if not (MIN_BEND <= bend <= MAX_BEND * 4 or ratio == 1.0):
            continue
        covariances.append(scale * C)
        moves.append(np.outer(fit - u, fit - u))
        # Gaussian marginal likelihood of the data with a flat prior on the line.
        evidence.append(0.5 * b @ fit / scale + 0.5 * np.linalg.slogdet(C)[1] + 0.5 * 4 * np.log(smoothing))
    weight = np.exp(np.array(evidence) - max(evidence))
    expected = np.tensordot(weight / weight.sum(), np.array(covariances) + np.array(moves), axes=1)
    np.testing.assert_allclose(root @ root.T, expected, rtol=1e-8, atol=1e-12)


def test_with_much_data_the_smoothing_is_certain_and_nothing_changes(gaussian):
    H, _, S = gaussian
    many = 1e8
    u_true = np.array([0.3, -0.2, 1.0, -1.0, 0.5, 2.0])
    H = H * many
    strength = 4 / (u_true[2:] ** 2).sum()
    covariance, u = at(H, H @ u_true, strength * S)
    root = averaged_root(np.linalg.cholesky(covariance), u, strength * S, 1.0)
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-4)
