"""What the README says in numbers is in the committed results."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


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
    (cells,) = (cells for name, cells in rows(README).items() if name.startswith(start))
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
    share = float(section("MULTICLASS.md", "## Targets", "## Fit")["10,000 x 10: fit / sms"][0])
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


def test_the_promises_above_the_table_are_those_of_the_arena():
    words = " ".join(README.split())
    best = max(float(cells[0]) for name, cells in BINARY.items() if name != "calspline" and cells[0][0].isdigit())
    assert f"win {float(BINARY['calspline'][0]):.0%} of pairwise comparisons" in words
    assert f"the next best wins {best:.0%}" in words
    assert f"they win {float(MANY['calspline'][0]):.0%}, against {float(MANY['sms'][0]):.0%}" in words
    harmed = round(135 * float(BINARY["calspline"][3]))
    assert (harmed, float(MANY["calspline"][3])) == (0, 0.0)
    assert "None of the 135, and none of the 71, came out more than 1% (and 0.001 nats) worse" in words


def test_the_promises_on_good_models_are_those_of_the_calibrated_half():
    words = " ".join(README.split())
    text = (ROOT / "benchmarks/arena/CALIBRATED.md").read_text(encoding="utf-8")
    two, several = text.split("## Several classes")

    def harmed(half, method):
        return [f"{float(rows(part)[method][1].rstrip('%')):.0f}%" for part in half.split("### ")[1:]]

    few, more, whole = (one if one != "0%" else "none" for one in harmed(two, "calspline"))
    assert f"harms {few} with 300 calibration rows, {more} with 1,000 and {whole} with all rows" in words
    assert f"(beta calibration: {', '.join(harmed(two, 'beta'))})" in words
    few, more, whole = (one if one != "0%" else "none" for one in harmed(several, "calspline"))
    assert f"with 300 it harms {few} of the good models, with 1,000 {more} and with all rows {whole}" in words
    shown = rows(README.replace("\n  |", "\n|"))
    overview = {name: cells for name, cells in shown.items() if name.startswith(("two classes", "several"))}
    assert len(overview) == 6
    for name, cells in overview.items():
        kind, _, who = name.partition(": ")
        half = two if kind == "two classes" else several
        for cell, part in zip(cells, half.split("### ")[1:], strict=True):
            found = rows(part)
            others = [method for method in found if method not in ("method", "calspline", "raw") and method.strip("-")]
            best = max(others, key=lambda method: float(found[method][0]))
            rate, harm, _ = found[who if who in found else best]
            said = f"{float(rate):.2f}, {float(harm.rstrip('%')):.0f}%"
            assert cell == (said if who in found else f"{said} ({best})")
    raw, ours = (float(rows(two.split("### ")[1])[method][0]) for method in ("raw", "calspline"))
    assert abs(raw - ours) < 0.01, "with 300 rows the raw scores are as good as it is"


def test_the_commands_of_the_readme_are_in_the_recorded_session():
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    (block,) = (block for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL) if "calspline fit" in block)
    for command in block.strip().splitlines():
        assert f"$ {command}\n" in page, command
