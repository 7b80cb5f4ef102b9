import re
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
    blocks = re.findall(
        r"```python\n(.*?)```", (PAGES / f"{page}.md").read_text(), flags=re.DOTALL
    )
    assert len(blocks) == 1
    exec(compile(blocks[0], f"{page}.md", "exec"), {})
    assert capfd.readouterr().out


def test_every_engine_has_a_page_and_links_lead_somewhere():
    assert {path.stem for path in PAGES.glob("*.md")} == {*ENGINES, "ten_billion_rows"}
    for path in PAGES.glob("*.md"):
        for target in re.findall(r"\]\((?!http)([^)]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path}: {target}"
