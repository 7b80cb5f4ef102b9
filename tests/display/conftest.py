import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")


@pytest.fixture(scope="session")
def parts():
    """All artists of an axes that carry a gid."""
    return lambda ax, gid: ax.findobj(lambda artist: artist.get_gid() == gid)


@pytest.fixture(scope="session")
def part(parts):
    """The only one."""

    def find(ax, gid):
        (found,) = parts(ax, gid)
        return found

    return find


@pytest.fixture(scope="session")
def words():
    """All notes on an axes, in one string."""
    return lambda ax: " | ".join(text.get_text() for text in ax.texts)


@pytest.fixture(autouse=True)
def _drawn_and_closed():
    """Every figure is rendered, which raises what rendering would warn of, and closed; no setting is left changed."""
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")
    assert dict(mpl.rcParams) == before


@pytest.fixture(scope="session")
def raw(simulated):
    p, y, _ = simulated(1500, seed=3)
    return y, p


@pytest.fixture(scope="session")
def three():
    """Labels and probabilities of three classes."""
    rng = np.random.default_rng(4)
    z = rng.normal(0, 2, (900, 3))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return (p.cumsum(axis=1) > rng.random((900, 1))).argmax(axis=1), p
