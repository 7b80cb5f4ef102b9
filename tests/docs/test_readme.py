"""Numbers in the README and in the comparison are those of the committed results."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMPARISON = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")


def rows(text):
    """Cells of the Markdown tables in a text, by the first cell of the row; the first row of a name counts."""
    found = {}
    for line in text.splitlines():
        if line.startswith("|"):
            name, *cells = (cell.strip(" *") for cell in line.strip("|").split("|"))
            found.setdefault(name, cells)
    return found


def section(page, begin, end):
    text = (ROOT / "benchmarks" / page).read_text(encoding="utf-8")
    return rows(text.partition(begin)[2].partition(end)[0])


SHARES = section("speed/RESULTS.md", "## Time of calspline as a share", "## Peak")
BINARY = section("arena/RESULTS.md", "## Binary", "###")
MANY = section("arena/RESULTS.md", "## Multiclass", "###")
SIZES = ["1k", "10k", "100k", "1M", "10M"]


def line(start):
    (cells,) = (
        cells for name, cells in rows(COMPARISON).items() if name.startswith(start)
    )
    return cells


@pytest.mark.parametrize(
    ("package", "method", "size"),
    [
        ("scikit-learn 1.9.1, isotonic", "isotonic", "1M"),
        ("scikit-learn 1.9.1, sigmoid", "sigmoid", "1M"),
        ("betacal", "betacal", "1M"),
        ("splinecalib", "splinecalib", "100k"),
        ("splinator", "splinator", "100k"),
    ],
)
def test_times_of_a_fit_are_those_of_the_speed_benchmark(package, method, size):
    share = float(SHARES[f"fit / {method}"][SIZES.index(size)])
    said = line(package)[6].removesuffix(" (100k rows)")
    assert float(said) == pytest.approx(1 / share, rel=0.02)


def test_the_time_of_structured_matrix_scaling_is_that_of_the_multiclass_benchmark():
    share = float(
        section("MULTICLASS.md", "## Targets", "## Fit")["10,000 x 10: fit / sms"][0]
    )
    assert line("probmetrics")[6] == f"{1 / share:.1f} (10 classes)"


@pytest.mark.parametrize(
    ("package", "binary", "many"),
    [
        ("calspline", "calspline", "calspline"),
        ("scikit-learn 1.9.1, isotonic", "isotonic", "isotonic-ovr"),
        ("scikit-learn 1.9.1, sigmoid", "platt-logits", None),
        ("scikit-learn 1.9.1, temperature", "temperature", "temperature"),
        ("betacal", "beta", None),
        ("venn-abers", "venn-abers", None),
        ("splinecalib", "splinecalib", None),
        ("probmetrics", "quadratic", "sms"),
    ],
)
def test_shares_won_are_those_of_the_arena(package, binary, many):
    two, more = line(package)[7].replace("*", "").split(" / ")
    assert two == f"{float(BINARY[binary][0]):.2f}"
    assert more == ("-" if many is None else f"{float(MANY[many][0]):.2f}")


def harmed(half, method):
    """Share of experiments made worse, for each number of rows in a half of the results for good models."""
    return [
        f"{float(rows(part)[method][1].rstrip('%')):.0f}%"
        for part in half.split("### ")[1:]
    ]


def test_win_rates_in_the_readme_are_those_of_the_arena():
    words = " ".join(README.split())
    others = [
        float(cells[0])
        for name, cells in BINARY.items()
        if name != "calspline" and cells[0][0].isdigit()
    ]
    assert len(others) == 8
    assert (
        f"win {float(BINARY['calspline'][0]):.0%} of the pairwise comparisons" in words
    )
    assert "with eight alternatives" in words
    assert float(BINARY["calspline"][3]) == float(MANY["calspline"][3]) == 0.0
    assert "None of these outputs, and none of those with more classes" in words


def test_the_speed_in_the_readme_is_that_of_the_speed_benchmark():
    words = " ".join(README.split())
    assert (
        "A fit to a million rows takes a ninth of the time of scikit-learn's" in words
    )
    assert round(1 / float(SHARES["fit / isotonic"][SIZES.index("1M")])) == 9


def test_the_coverage_in_the_readme_is_that_of_the_benchmark():
    words = " ".join(README.split())
    bands = section("COVERAGE.md", "## The bands", "## Several")
    simultaneous = bands["mean"][0].partition(" / ")[2].rstrip("%")
    assert f"contain the true curve {float(simultaneous):.0f}% of the time" in words


def test_the_table_of_good_models_is_that_of_the_arena():
    text = (ROOT / "benchmarks/arena/CALIBRATED.md").read_text(encoding="utf-8")
    two, several = text.split("## Several classes")
    few, more, whole = harmed(two, "beta")
    words = " ".join(COMPARISON.split())
    assert (
        f"harms {few} of the two-class outputs with 300 rows, {more} with 1,000 and {whole} with all"
        in words
    )
    shown = rows(COMPARISON)
    overview = {
        name: cells
        for name, cells in shown.items()
        if name.startswith(("two classes", "several"))
    }
    assert len(overview) == 6
    for name, cells in overview.items():
        kind, _, who = name.partition(": ")
        half = two if kind == "two classes" else several
        parts = half.split("### ")[1:]
        assert len(cells) == 2 * len(parts)
        for shown_rate, shown_harm, part in zip(
            cells[::2], cells[1::2], parts, strict=True
        ):
            found = rows(part)
            others = [
                method
                for method in found
                if method not in ("method", "calspline", "raw") and method.strip("-")
            ]
            best = max(others, key=lambda method: float(found[method][0]))
            rate, harm, _ = found[who if who in found else best]
            stored_rate = f"{float(rate):.2f}"
            assert shown_rate == (
                stored_rate if who in found else f"{stored_rate} ({best})"
            )
            assert shown_harm == f"{float(harm.rstrip('%')):.0f}%"
    raw, ours = (
        float(rows(two.split("### ")[1])[method][0]) for method in ("raw", "calspline")
    )
    assert abs(raw - ours) < 0.01, "with 300 rows the raw scores are as good"


def test_the_commands_of_the_tour_are_in_the_recorded_session():
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    tour = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    (block,) = (
        block
        for block in re.findall(r"```sh\n(.*?)```", tour, flags=re.DOTALL)
        if "calspline fit" in block
    )
    for command in block.strip().splitlines():
        assert f"$ {command}\n" in page, command
