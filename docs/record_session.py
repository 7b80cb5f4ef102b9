"""Record the session of ``docs/command_line.md`` by running its commands.

``python docs/record_session.py`` replaces what stands between the two marks in the
page.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parent / "command_line.md"
BEGIN, END = (
    "<!-- session: made by docs/record_session.py -->",
    "<!-- end of session -->",
)
COMMANDS = (
    "calspline --version",
    "head -3 past.csv",
    "calspline fit past.csv -o model.json",
    "calspline apply model.json new.csv -o calibrated.parquet",
    "calspline apply model.json new.csv -o - | head -3",
    "calspline apply model.json new.csv -o scored.csv",
    "calspline evaluate scored.csv --score calibrated",
    "calspline compare scored.csv --score score,calibrated",
    "calspline report new.csv --model model.json -o report.html",
    "calspline export model.json --to javascript | head -2",
    "calspline fit past.csv -o model.json",
    "calspline demo",
)


def write_data(folder: Path) -> None:
    """Two files of scores from an over-confident model."""
    rng = np.random.default_rng(0)
    for name, n in (("past.csv", 4000), ("new.csv", 2000)):
        log_odds = rng.normal(-0.5, 1.2, n)
        outcome = rng.random(n) < 1.0 / (1.0 + np.exp(-log_odds))
        score = 1.0 / (1.0 + np.exp(-2.5 * log_odds))
        rows = [
            f"{i + 1},{s:.4f},{int(y)}"
            for i, (s, y) in enumerate(zip(score, outcome, strict=True))
        ]
        (folder / name).write_text("\n".join(["id,score,label", *rows]) + "\n")


def record() -> str:
    """What a person would see, without the folder it was done in."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        write_data(folder)
        lines = []
        for command in COMMANDS:
            shell = (
                f'calspline() {{ "{sys.executable}" -m calspline "$@"; }}; {command}'
            )
            done = subprocess.run(
                ["sh", "-c", shell],
                cwd=folder,
                env=os.environ | {"PYTHONIOENCODING": "utf-8"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            printed = done.stdout.decode().replace(f"{folder}/", "").rstrip()
            lines.append(f"$ {command}\n{printed}\n")
        return "\n".join(lines)


def main() -> None:
    """Put the session into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(
        f"{before}{BEGIN}\n\n```console\n{record()}```\n\n{END}{after}",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
