"""Sessions at the command line: output, files and exit codes of every command."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tests.golden import data
from tests.golden.cases_fits import by_country, of
from tests.golden.record import Area, Case

import calspline
from calspline.cli import main

Step = str | Callable[[Path], str]
"""A command without its name, or a function that describes a file."""


def column(values: Any) -> list[str]:
    return [
        repr(value) if isinstance(value, float) else str(value)
        for value in np.asarray(values).tolist()
    ]


def write_csv(path: Path, **columns: Any) -> None:
    rows = zip(*map(column, columns.values()), strict=True)
    path.write_text(
        "\n".join([",".join(columns), *map(",".join, rows)]) + "\n", encoding="utf-8"
    )


def write_files(folder: Path) -> None:
    """Tables of two and three classes, of margins, with segments and groups."""
    rows = of(data.wavy, data.counted, data.grouped, by_country)()
    extra = {"country": rows.by, "patient": rows.groups, "weight": rows.weight}
    outcome = np.array(["no", "yes"])[rows.y]
    write_csv(folder / "past.csv", score=rows.scores.round(6), label=outcome, **extra)
    write_csv(
        folder / "new.csv",
        id=np.arange(16),
        score=data.PROBABILITIES,
        country=data.repeated(["at", "xx"], 16),
    )
    both = {"raw": rows.scores.round(6), "better": np.round(0.2 + 0.6 * rows.scores, 6)}
    write_csv(folder / "both.csv", **both, label=rows.y, country=rows.by)
    for day in range(3):
        part = slice(200 * day, 200 * day + 200)
        write_csv(
            folder / f"day{day + 1}.csv",
            score=rows.scores[part].round(6),
            label=outcome[part],
        )
    margins = data.margins()
    write_csv(folder / "margins.csv", score=margins.scores.round(6), label=margins.y)
    three = data.three()
    named = {
        f"p_{name}": three.scores[:, j] for j, name in enumerate(("cat", "dog", "eel"))
    }
    write_csv(
        folder / "three.csv", **named, label=np.array(["cat", "dog", "eel"])[three.y]
    )
    gap = (folder / "past.csv").read_text().splitlines()[:40]
    (folder / "gaps.csv").write_text(
        "\n".join([*gap, ",yes,at,1,1.0", "0.5,,at,1,1.0"]) + "\n"
    )


@contextmanager
def inside(folder: Path):
    """Work in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(command: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Exit code, output and messages of a command in this process."""
    streams = sys.stdin, sys.stdout, sys.stderr
    replaced = [
        io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
        for given in (stdin, b"", b"")
    ]
    sys.stdin, sys.stdout, sys.stderr = replaced
    try:
        code = main(command.split())
    except SystemExit as end:  # --version
        code = int(end.code or 0)
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    out, err = (stream_text(stream) for stream in replaced[1:])
    return code, out, err


def stream_text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode()  # type: ignore[attr-defined]


def normalised(text: str, folder: Path) -> str:
    """Text without what differs from run to run: where it ran, and versions."""
    text = text.replace(str(folder.resolve()), "<folder>").replace(
        str(folder), "<folder>"
    )
    text = re.sub(rf"\b{re.escape(calspline.__version__)}\b", "<version>", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def session(*steps: Step) -> Callable[[], str]:
    """The transcript of commands, one after the other in a new folder."""

    def result() -> str:
        parts: list[str] = []
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_files(folder)
            with inside(folder):
                for step in steps:
                    parts += described(step, folder)
        return "\n".join(parts) + "\n"

    return result


def described(step: Step, folder: Path) -> list[str]:
    if callable(step):
        return [
            f"[{step.__name__}]",
            *normalised(step(folder), folder).splitlines(),
            "",
        ]
    piped = step.partition(" < ")
    code, out, err = run(piped[0], Path(piped[2]).read_bytes() if piped[2] else b"")
    printed = normalised(out, folder).splitlines()
    said = [f"! {line}" for line in normalised(err, folder).splitlines()]
    return [f"$ calspline {step}", *printed, *said, f"exit code {code}", ""]


def head(name: str, n: int = 6) -> Callable[[Path], str]:
    def shown(folder: Path) -> str:
        return "\n".join((folder / name).read_text().splitlines()[:n])

    shown.__name__ = f"head of {name}"
    return shown


def calibrated(name: str, scores: Sequence[Any], **given: Any) -> Callable[[Path], str]:
    """Probabilities of a model in a file."""

    def shown(folder: Path) -> str:
        model = calspline.load(folder / name)
        p = model.calibrate(scores, **given)
        numbers = [float(f"{each:.12g}") for each in np.ravel(p)]
        return f"{type(model).__name__} of {model.classes_.tolist()}\n{numbers}"

    shown.__name__ = f"probabilities of {name}"
    return shown


def executed(name: str, call: str) -> Callable[[Path], str]:
    """What exported Python makes of a score."""

    def shown(folder: Path) -> str:
        code: dict[str, Any] = {}
        exec(compile((folder / name).read_text(), name, "exec"), code)
        return repr(eval(call, code))

    shown.__name__ = f"{call} of {name}"
    return shown


def files(folder: Path) -> str:
    return "\n".join(
        sorted(
            path.name
            for path in folder.iterdir()
            if path.suffix != ".csv" or "out" in path.name
        )
    )


FIT = "fit past.csv -o model.json"
SCORES = [0.0, 0.03, 0.5, 0.97, 1.0]
SESSIONS: dict[str, tuple[Step, ...]] = {
    "demo": ("demo", files),
    "version": ("--version",),
    "no-command": ("", "nonsense"),
    "fit": (FIT, files, calibrated("model.json", SCORES), FIT, f"{FIT} --force"),
    "fit-json": (f"{FIT} --json",),
    "fit-from-standard-input": (
        "fit - -o model.json < past.csv",
        calibrated("model.json", SCORES),
    ),
    "fit-weights": (f"{FIT} --weight weight", calibrated("model.json", SCORES)),
    "fit-groups": (f"{FIT} --group patient", calibrated("model.json", SCORES)),
    "fit-by": (
        f"{FIT} --by country",
        calibrated("model.json", SCORES, by=["at", "be", "ch", "de", "es"]),
    ),
    "fit-margins": (
        "fit margins.csv -o model.json --scale identity",
        calibrated("model.json", [-5.0, 0.0, 9.0]),
    ),
    "fit-options": (
        f"{FIT} --smoothing 0.01 --monotone",
        calibrated("model.json", SCORES),
        f"{FIT} --force --smoothing cv --scale asinh_logit",
        calibrated("model.json", SCORES),
    ),
    "fit-methods": tuple(
        step
        for method in ("sigmoid", "isotonic", "beta", "temperature", "clipping")
        for step in (
            f"fit past.csv -o {method}.json --method {method}",
            calibrated(f"{method}.json", SCORES),
        )
    ),
    "fit-positive": (f"{FIT} --positive no", calibrated("model.json", SCORES)),
    "fit-three-classes": (
        "fit three.csv -o model.json",
        calibrated("model.json", [[0.2, 0.3, 0.5]]),
        "fit three.csv -o model.json --force --multiclass ovr",
        calibrated("model.json", [[0.2, 0.3, 0.5]]),
    ),
    "fit-missing": (
        "fit gaps.csv -o model.json",
        "fit gaps.csv -o model.json --missing drop",
    ),
    "apply": (FIT, "apply model.json new.csv -o out.csv", head("out.csv", 20)),
    "apply-to-standard-output": (FIT, "apply model.json new.csv -o - --output p"),
    "apply-by": (
        f"{FIT} --by country",
        "apply model.json new.csv -o out.csv --by country",
        head("out.csv", 20),
    ),
    "apply-three-classes": (
        "fit three.csv -o model.json",
        "apply model.json three.csv -o out.csv",
        head("out.csv"),
    ),
    "evaluate": ("evaluate past.csv", "evaluate past.csv --json"),
    "evaluate-groups": ("evaluate past.csv --group patient",),
    "evaluate-by": ("evaluate past.csv --by country --weight weight",),
    "evaluate-three-classes": ("evaluate three.csv",),
    "compare": (
        "compare both.csv --score raw,better",
        "compare both.csv --score raw,better --json",
    ),
    "compare-by": (
        "compare both.csv --score raw,better --by country --reference better",
    ),
    "report": (FIT, "report past.csv --model model.json -o report.html", files),
    "report-costs": (
        "report both.csv --score raw,better -o report.html --costs 1,5 --by country",
    ),
    "export": (
        FIT,
        "export model.json --to python -o calibrate.py",
        executed("calibrate.py", "calibrate(0.3)"),
        "export model.json --to sql -o calibrate.sql",
        "export model.json --to javascript -o calibrate.js",
        "export model.json --to c -o calibrate.c",
        "export model.json --to onnx -o calibrate.onnx",
        files,
    ),
    "export-by": (
        f"{FIT} --by country",
        "export model.json --to python -o calibrate.py",
        executed("calibrate.py", "calibrate(0.3, 'at')"),
        "export model.json --to sql --by country -o calibrate.sql",
        files,
    ),
    "monitor": (
        FIT,
        "monitor state.json day1.csv --model model.json",
        "monitor state.json day2.csv day3.csv",
        "monitor state.json day3.csv --json",
        files,
    ),
    "monitor-without-model": ("monitor state.json day1.csv", files),
}

AREA = Area(
    "commands",
    {name: Case(session(*steps)) for name, steps in SESSIONS.items()},
    suffix=".txt",
)
