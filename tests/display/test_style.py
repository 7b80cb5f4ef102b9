"""Colours are told apart by every kind of colour vision, and series by more than colour."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from calspline._formatting import percent
from calspline.display import style
from calspline.display.style import ticks

# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as people without one
# kind of cone see it.
VISION = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}
SRGB_TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
)
WHITE = SRGB_TO_XYZ.sum(axis=1)
COLOURS = [
    style.BLUE,
    style.VERMILION,
    style.GREEN,
    style.PURPLE,
    style.ORANGE,
    style.SKY,
    style.INK,
]


def lab(colour, seen=VISION["all cones"]):
    """CIELAB of a colour as seen."""
    c = np.array(to_rgb(colour))
    linear = np.clip(
        np.asarray(seen)
        @ np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4),
        0,
        1,
    )
    t = SRGB_TO_XYZ @ linear / WHITE
    f = np.where(t > 216 / 24389, np.cbrt(t), (24389 / 27 * t + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
def test_any_two_colours_differ_plainly_to_every_kind_of_colour_vision(vision):
    """A difference of about 2 is just noticeable."""
    for a, b in combinations(COLOURS, 2):
        assert np.linalg.norm(lab(a, VISION[vision]) - lab(b, VISION[vision])) > 15


def test_the_measure_of_colours_itself_sees_what_red_green_blindness_hides():
    red, green = "#d00000", "#807000"
    assert np.linalg.norm(lab(red) - lab(green)) > 60
    assert (
        np.linalg.norm(
            lab(red, VISION["protanopia"]) - lab(green, VISION["protanopia"])
        )
        < 40
    )
    assert lab("white") == pytest.approx([100, 0, 0], abs=1e-3)


def test_colours_stand_out_from_white_paper():
    for colour in COLOURS:
        assert lab(colour)[0] < 75


@pytest.mark.parametrize("count", [2, 3, 6])
def test_series_differ_in_grey_by_marker_and_dashes(count):
    looks = style.series_styles(count)
    assert len({(look.marker, look.fill == "white") for look in looks}) == count
    assert len({str(look.dashes) for look in looks}) == count
    assert len({str(look.dashes) for look in style.curve_styles(count)}) == count


def test_more_series_than_colours_still_differ_in_some_way():
    assert len({str(look) for look in style.series_styles(12)}) == 12


def test_functions_laid_over_before_and_after_have_other_colours():
    taken = {look.color for look in style.series_styles(2)}
    assert not taken & {look.color for look in style.curve_styles(6)}


def test_styling_one_axes_leaves_the_next_alone():
    figure, (ax, other) = plt.subplots(1, 2)
    style.style_axes(ax)
    assert not ax.spines["top"].get_visible()
    assert other.spines["top"].get_visible()
    plt.close(figure)


@pytest.mark.parametrize(
    ("p", "shown"),
    [
        (0.5, "50%"),
        (0.01, "1%"),
        (0.001, "0.1%"),
        (0.999, "99.9%"),
        (1 - 1e-6, "99.9999%"),
        (0, "0%"),
    ],
)
def test_percentages_are_short_and_do_not_round_to_certainty(p, shown):
    assert percent(p) == shown


def test_ticks_are_few_and_symmetric():
    for low in (1e-3, 1e-4, 1e-5, 1e-6):
        places = ticks(low, 1 - low)
        assert 0.5 in places
        assert len(places) <= 9
        np.testing.assert_allclose(places, 1 - places[::-1], atol=1e-12)


@pytest.mark.parametrize(
    ("count", "columns"),
    [(2, 2), (3, 3), (4, 2), (6, 3), (9, 3), (10, 5), (12, 4), (100, 5)],
)
def test_small_diagrams_fill_their_block(count, columns):
    assert style.columns_for(count) == columns
