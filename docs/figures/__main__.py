"""Draw the figures of the documentation: ``make figures``.

``python -m docs.figures [name ...]`` draws some of them.
"""

from __future__ import annotations

import sys
from importlib import import_module

from docs.figures.sheet import FOLDER, save

TOOLS = {"__main__", "sheet"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in TOOLS)


def main(names: list[str]) -> None:
    """Draw all that the modules named make."""
    for module in names or NAMES:
        for name, figure in import_module(f"docs.figures.{module}").draw().items():
            save(figure, name)
            print(f"wrote docs/figures/{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
