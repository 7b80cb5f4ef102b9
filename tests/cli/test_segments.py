"""``--by`` for evaluate, compare and report."""

import json

import numpy as np
import pytest

from calspline import evaluate
from calspline.cli import main


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    x, country, device = rng.normal(size=1500), rng.choice(["at", "de", "fr"], 1500), rng.integers(0, 2, 1500)
    y = rng.random(1500) < 1 / (1 + np.exp(-x - (country == "fr")))
    p, q = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-x - (country == "fr")))
    lines = [f"{p[i]:.17g},{q[i]:.17g},{'' if i < 20 else country[i]},{device[i]},{int(y[i])}" for i in range(1500)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["score,better,country,device,label", *lines]))
    country = np.where(np.arange(1500) < 20, None, country.astype(object))
    return str(path), y, p, country, device


def test_evaluate_by_columns_is_that_of_arrays(file, capsys):
    path, y, p, country, device = file
    assert main(["evaluate", path, "--score", "score", "--by", "country,device", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = evaluate(y, p, by=[country, device]).segments
    assert found["segments_p_value"] == pytest.approx(expected.p_value)
    assert [one["segment"] for one in found["segments"]] == ["at", "de", "fr", None, "0", "1"]
    assert [one["column"] for one in found["segments"]] == ["country"] * 4 + ["device"] * 2
    np.testing.assert_allclose([one["ratio"] for one in found["segments"]], expected.table["ratio"])


def test_tables_and_pages_have_a_part_by_segment(file, capsys, tmp_path):
    path = file[0]
    assert main(["evaluate", path, "--score", "score", "--by", "country"]) == 0
    assert "Not every segment is calibrated" in capsys.readouterr().out
    assert main(["compare", path, "--score", "score,better", "--by", "country"]) == 0
    assert "By segment, better against score" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert main(["report", path, "--score", "score,better", "--by", "country", "-o", str(page)]) == 0
    assert "fr: said " in page.read_text()


def test_a_column_that_is_not_there_is_named(file, capsys):
    assert main(["evaluate", file[0], "--score", "score", "--by", "region"]) == 2
    assert "--by: there is no column 'region'" in capsys.readouterr().err
