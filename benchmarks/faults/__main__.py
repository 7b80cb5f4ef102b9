"""Run every probe over every library that is installed, and write benchmarks/FAULTS.md.

``--only NAME`` takes some libraries; what they gave before is kept for the others.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import benchmarks.faults as here
from benchmarks.faults.judge import Verdict
from benchmarks.faults.libraries import LIBRARIES, Library
from benchmarks.faults.probes import NEEDS, PROBES, Trial
from benchmarks.tables import table

PAGE = Path(__file__).parents[1] / "FAULTS.md"
ASKS_FOR_ERROR = (
    1,
    2,
    3,
    "3b",
    4,
    6,
    7,
    8,
    9,
    16,
    20,
    21,
    24,
    25,
    26,
    30,
    31,
    32,
    35,
    40,
    41,
    42,
    46,
    54,
)
Found = dict[str, list[str]]


def cache() -> Path:
    """Where results are kept between runs."""
    folder = Path(
        os.environ.get("CALSPLINE_CACHE", Path.home() / ".cache" / "calspline")
    )
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "faults.json"


def tried(library: Library) -> Found:
    """Every probe of a library."""
    trial = Trial(library)
    found: Found = {}
    for name, (_, _, run) in PROBES.items():
        if not NEEDS[name](library):
            continue
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            try:
                verdict = run(trial)
            except Exception as error:  # plain rows failed
                verdict = Verdict(
                    "unclear", f"{type(error).__name__} on plain rows: {error}"[:120]
                )
        found[name] = [verdict.word, verdict.seen]
        print(
            f"{library.name:28} {name:36} {verdict.word:8} {verdict.seen}", flush=True
        )
    return found


def passed(name: str, word: str) -> bool:
    """Whether a verdict is what the contract asks for."""
    return word == "right" or (word == "clear" and PROBES[name][0] in ASKS_FOR_ERROR)


def page(
    results: dict[str, Found], versions: dict[str, str], missing: list[str]
) -> str:
    """The results in words and two tables."""
    rows = []
    for library, found in results.items():
        words = Counter(word for word, _ in found.values())
        good = sum(passed(name, word) for name, (word, _) in found.items())
        refused = sum(
            word == "clear" and not passed(name, word)
            for name, (word, _) in found.items()
        )
        shown = [good, len(found), refused, words["unclear"], words["wrong"]]
        rows.append([library, versions[library], *map(str, shown)])
    header = [
        "library",
        "version",
        "as asked",
        "of",
        "clear refusal",
        "unclear error",
        "silently wrong",
    ]
    marks = [
        [name, *(results[library].get(name, ["-"])[0] for library in results)]
        for name in PROBES
    ]
    silent = [
        [library, name, seen]
        for library, found in results.items()
        for name, (word, seen) in found.items()
        if word == "wrong"
    ]
    short = [library.replace("scikit-learn", "sklearn") for library in results]
    parts = [
        "# Bad and odd input: calspline and other libraries",
        "Made by `python -m benchmarks.faults`. "
        + " ".join(
            (here.__doc__ or "")
            .partition("\n\n")[2]
            .partition("\n\n- *right*")[0]
            .split()
        ),
        "- *right*" + (here.__doc__ or "").partition("- *right*")[2].strip(),
        "## Counts",
        table(header, rows),
        "*As asked* counts right answers, and clear errors where the contract asks for an error. A *clear refusal* is "
        "a clear error where it asks for an answer. "
        + (
            f"Not installed, and so not tried: {', '.join(missing)}."
            if missing
            else "All libraries were installed."
        ),
        "## Cell by cell",
        "Numbers are those of [the contract](../docs/faults.md); - means that the library has no such input. An error "
        "is asked for in cases " + ", ".join(map(str, ASKS_FOR_ERROR)) + ".",
        table(["case", *short], marks),
        "## Silently wrong",
        table(["library", "case", "what came back"], silent),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Try the libraries, and write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--only", nargs="*", help="names of libraries, or beginnings of them"
    )
    only = options.parse_args().only
    path = cache()
    if not only:
        path.unlink(missing_ok=True)
    kept: dict[str, Found] = json.loads(path.read_text()) if path.exists() else {}
    chosen = [
        library
        for library in LIBRARIES
        if not only or library.name.startswith(tuple(only))
    ]
    for library in chosen:
        if library.version is None:
            continue
        if len(chosen) > 1:
            # In a process of its own: what one leaves behind in it must not trouble the
            # next.
            subprocess.run(
                [sys.executable, "-m", "benchmarks.faults", "--only", library.name],
                check=True,
            )
            kept = json.loads(path.read_text())
        else:
            kept[library.name] = tried(library)
            path.write_text(json.dumps(kept))
    known = {library.name: library.version for library in LIBRARIES}
    versions = {
        name: str(version) for name, version in known.items() if version is not None
    }
    results = {
        library.name: kept[library.name]
        for library in LIBRARIES
        if library.name in kept
    }
    PAGE.write_text(
        page(results, versions, [name for name in known if name not in kept])
    )
    print(PAGE)


if __name__ == "__main__":
    main()
