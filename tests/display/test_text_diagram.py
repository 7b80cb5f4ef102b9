import numpy as np

from calspline.demo import HEIGHT, WIDTH, reliability_text


def panel(text):
    """The cells of the first diagram."""
    return [
        line[6 : 6 + WIDTH].ljust(WIDTH) for line in text.splitlines()[1 : 1 + HEIGHT]
    ]


def test_points_of_right_probabilities_lie_on_the_diagonal():
    p = np.repeat(np.linspace(0.05, 0.95, 10), 1000)
    y = np.concatenate(
        [np.arange(1000) < round(1000 * q) for q in np.linspace(0.05, 0.95, 10)]
    )
    cells = panel(reliability_text(y, {"raw": p}))
    points = [
        (i, j)
        for i, row in enumerate(cells)
        for j, cell in enumerate(row)
        if cell == "●"
    ]
    assert len(points) == 10
    for i, j in points:
        assert abs((HEIGHT - 1 - i) / (HEIGHT - 1) - j / (WIDTH - 1)) <= 0.6 / (
            HEIGHT - 1
        ) + 0.6 / (WIDTH - 1)


def test_a_point_stands_at_its_probability_and_its_share():
    y = np.arange(1000) < 200
    cells = panel(reliability_text(y, {"raw": np.full(1000, 0.9)}))
    assert (
        cells[HEIGHT - 1 - round(0.2 * (HEIGHT - 1))][round(0.9 * (WIDTH - 1))] == "●"
    )


def test_plain_text_is_ascii_of_the_same_shape():
    y, p = np.arange(50) % 2, np.linspace(0, 1, 50)
    drawn, plain = (
        reliability_text(y, {"a": p, "b": p}, plain=plain) for plain in (False, True)
    )
    assert plain.isascii()
    assert [len(line) for line in plain.splitlines()] == [
        len(line) for line in drawn.splitlines()
    ]
