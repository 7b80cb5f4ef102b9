import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "engines"
ENGINES = {
    "pandas": "pandas",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "duckdb": "duckdb",
    "dask": "dask.dataframe",
    "spark": "pyspark",
    "ibis": "ibis",
}


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
@pytest.mark.parametrize("page", ENGINES)
def test_the_example_of_every_page_runs(page, request, tmp_path, monkeypatch, capfd):
    pytest.importorskip(ENGINES[page])
    if page == "spark":
        request.getfixturevalue("spark_session")  # which the example then gets
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / f"{page}.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], f"{page}.md", "exec"), {})
    assert capfd.readouterr().out


def test_every_engine_has_a_page_and_links_lead_somewhere():
    assert {path.stem for path in PAGES.glob("*.md")} == {*ENGINES, "ten_billion_rows"}
    for path in PAGES.glob("*.md"):
        for target in re.findall(r"\]\((?!http)([^)]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path}: {target}"


def test_the_streaming_example_gives_one_fit_both_ways():
    command = [sys.executable, str(ROOT / "examples" / "streaming_parquet.py"), "--rows", "600000"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ)).stdout
    apart = float(re.search(r"largest difference of the two fits: (\S+)", out)[1])
    assert apart < 1e-9
    assert "600,000 rows" in out
