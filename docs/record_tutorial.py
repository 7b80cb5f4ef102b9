"""Run the code of ``docs/tutorial/decision.md``, and record its outputs and figures.

``make tutorial`` replaces the block of output below each block of code, and the figures
that the page shows next.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from docs.figures.sheet import save
from docs.record_pages import EXAMPLE, printed_by
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

PAGE = Path(__file__).parent / "tutorial" / "decision.md"
FIGURE = re.compile(r"!\[[^\]]*\]\(\.\./figures/(\w+)\.svg\)")


class Ran(NamedTuple):
    """A block of code, what it printed, and the last figure it drew."""

    block: re.Match[str]
    output: str
    figure: Figure | None


def run(page: str) -> Iterator[Ran]:
    """Run the blocks of a page in order; each knows the names of those before."""
    mpl.use("agg")
    names: dict[str, Any] = {}
    for block in EXAMPLE.finditer(page):
        plt.close("all")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            output = printed_by(block["code"], PAGE, names)
        yield Ran(block, output, plt.gcf() if plt.get_fignums() else None)
    plt.close("all")


def main() -> None:
    """Record the page."""
    page = PAGE.read_text(encoding="utf-8")
    parts, end = [], 0
    for block, output, figure in run(page):
        shown = FIGURE.search(page, block.end())
        if figure is not None and shown is not None:
            save(figure, shown[1])
        parts += [page[end : block.start()], f"```python\n{block['code']}```"]
        parts += [f"\n\n```text\n{output}```"] if output else []
        end = block.end()
    PAGE.write_text("".join([*parts, page[end:]]), encoding="utf-8")


if __name__ == "__main__":
    main()
