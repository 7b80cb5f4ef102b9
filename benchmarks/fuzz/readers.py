"""One hostile file for one reader, and what is wrong with what comes out."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import calspline
from benchmarks.fuzz.mutations import spoilt_bytes, spoilt_model, spoilt_table
from calspline.cli import main as command

KEPT = sorted(
    (Path(__file__).parents[2] / "tests" / "golden" / "models").glob("*.json")
)
BODIES = [json.loads(path.read_text()) for path in KEPT if path.stat().st_size < 50_000]
MAX_SECONDS = 10.0


class HangError(Exception):
    """A reader that took too long."""


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Raise once the processor has worked for so long."""

    def late(*_: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@cache
def small_bodies() -> list[dict[str, Any]]:
    """Models of every kind with little in them, so that what is spoilt matters."""
    rng = np.random.default_rng(0)
    p, q, y = rng.random(12), rng.dirichlet(np.ones(3), 12), np.arange(12) % 2
    two: list[Any] = [
        calspline.SplineCalibrator(n_knots=4),
        calspline.SplineCalibrator(n_knots=3, loss="brier"),
    ]
    two += [
        calspline.SigmoidCalibrator(),
        calspline.BetaCalibrator(),
        calspline.IsotonicCalibrator(),
    ]
    two += [calspline.TemperatureCalibrator(), calspline.ClippingCalibrator()]
    many: list[Any] = [
        calspline.SplineCalibrator(n_knots=4),
        calspline.SplineCalibrator(n_knots=3, multiclass="ovr"),
    ]
    many += [calspline.TemperatureCalibrator(), calspline.SigmoidCalibrator()]
    models: list[Any] = [cal.fit(p, np.array(["no", "yes"])[y]) for cal in two]
    models += [cal.fit(q, np.arange(12) % 3) for cal in many]
    models += [
        calspline.SplineCalibrator(n_knots=4).fit(10.0 * p - 5.0, y),
        calspline.ScoreHistogram.from_scores(p, y),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        return [_saved(model, path) for model in models]


def _saved(model: Any, path: Path) -> dict[str, Any]:
    calspline.save(model, path)
    body: dict[str, Any] = json.loads(path.read_text())
    return body


def model_file(random: Random) -> bytes:
    """A spoilt model: its values, with a right checksum, or its bytes."""
    body = random.choice(BODIES if random.random() < 0.1 else small_bodies())
    return (
        spoilt_model(random, body)
        if random.random() < 0.7
        else spoilt_bytes(random, json.dumps(body).encode())
    )


def load_hostile(content: bytes, folder: Path) -> str | None:
    """Load a model; what is wrong, if anything is. What is loaded has to answer as a model does."""
    path = folder / "model.json"
    path.write_bytes(content)
    try:
        with in_time(), warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "the fit did not converge"
            )  # as the file may well say
            model = calspline.load(path)
    except ValueError as error:
        return (
            None
            if str(path) in str(error)
            else f"an error that does not name the file: {error}"
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if isinstance(model, calspline.ScoreHistogram):
        return None
    try:
        with in_time():
            return _answers(model)
    except Exception as error:
        return f"loaded, then {type(error).__name__}: {error}"


def _answers(model: Any) -> str | None:
    m = len(model.classes_)
    scores = np.linspace(0.0, 1.0, 9) if m == 2 else np.full((3, m), 1.0 / m)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore", "all scores lie in"
        )  # which a calibrator of margins may well find odd
        p = model.predict_proba(scores)
    good = (
        np.isfinite(p).all()
        and p.min() >= 0.0
        and p.max() <= 1.0
        and np.abs(p.sum(axis=1) - 1.0).max() < 1e-9
    )
    return None if good else "loaded, then probabilities that are none"


def table_file(random: Random, format: str) -> bytes:
    """A spoilt table of scores and labels."""
    rows: list[dict[str, Any]] = [
        {
            "id": i,
            "score": round(random.random(), 3),
            "label": random.randrange(2),
            "w": 1.0,
        }
        for i in range(20)
    ]
    return spoilt_table(random, rows, format)


def fit_hostile(content: bytes, folder: Path, format: str, *more: str) -> str | None:
    """Fit a file by the command; what is wrong, if anything is."""
    path, model = folder / f"rows.{format}", folder / "fitted.json"
    path.write_bytes(content)
    model.unlink(missing_ok=True)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            with in_time():
                code = command(["fit", str(path), "-o", str(model), *more])
        except BaseException as error:
            return f"{type(error).__name__}: {error}"
    line = said.getvalue()
    if code == 2 and (model.exists() or line.count("\n") != 1):
        return f"refused, but not in one line, or with a model left behind: {line!r}"
    if code == 0:
        return None if model.exists() else "no model was written"
    return None if code == 2 else f"code {code}: {line}"
