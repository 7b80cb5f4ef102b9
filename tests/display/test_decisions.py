import numpy as np

from calspline import decide


def test_net_benefits_are_drawn_with_their_bands_and_what_acting_on_all_gives(
    raw, part, parts
):
    y, p = raw
    found = decide(
        y,
        {"$raw": p, "_halved": p / 2},
        costs={"false_positive": 1, "false_negative": 3},
    )
    ax = found.plot()
    for i, name in enumerate(("$raw", "_halved")):
        band = found.net_benefit[name]
        np.testing.assert_allclose(
            part(ax, f"net-benefit-{i}").get_data(), (found.thresholds, band.value)
        )
        edges = part(ax, f"band-{i}").get_paths()[0].vertices[:, 1]
        assert edges.min() == band.lower.min()
        assert edges.max() == band.upper.max()
        assert ax.get_legend().get_texts()[i].get_text() == name
    np.testing.assert_allclose(
        part(ax, "all").get_ydata(), found.net_benefit["act on all"].value
    )
    assert part(ax, "costs").get_xdata()[0] == found.costs.threshold
    assert ax.get_ylim()[1] > found.net_benefit["$raw"].value.max()
    assert not parts(decide(y, {"a": p}).plot(), "costs")


def test_a_set_that_is_never_worth_acting_on_is_drawn_too(raw):
    y, _ = raw
    ax = decide(
        np.zeros_like(y), {"model": np.zeros(len(y))}, thresholds=[0.2, 0.4]
    ).plot()
    low, high = ax.get_ylim()
    assert low < 0 < high
