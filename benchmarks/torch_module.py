"""What a calibrator costs in PyTorch, in softmaxes: ``python -m benchmarks.torch_module`` writes TORCH.md.

One thread; the least of many runs. A softmax of the same tensor along the same dimension is the unit. The compiled
module is that of ``torch.compile``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.tables import table
from calspline import SplineCalibrator, TemperatureCalibrator
from calspline.export import to_torch

SHAPES = [((100_000, 2), -1), ((10_000, 10), -1), ((2_500, 100), -1), ((250, 1000), -1), ((2, 21, 128, 128), 1)]
ROWS, RUNS = 5000, 30
HEADER = [
    "scores",
    "type",
    "softmax",
    "temperature",
    "spline, structured",
    "the same, compiled",
    "spline, one against the rest",
]


def least_time(run: Callable[[], Any]) -> float:
    """Seconds of the fastest of many runs."""
    run()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def line(shape: tuple[int, ...], dim: int, dtype: Any) -> list[str]:
    """A line of the table."""
    rng = np.random.default_rng(0)
    m = shape[dim]
    logits = 2.0 * rng.normal(size=(max(ROWS, 10 * m), m))
    y = (logits + rng.gumbel(size=logits.shape) + 0.3 * rng.normal(size=m)).argmax(axis=1)
    y[:m] = np.arange(m)
    scores = 3.0 * torch.randn(shape, dtype=dtype)
    softmax = least_time(lambda: torch.softmax(scores, dim))
    cells = ["x".join(map(str, shape)), str(dtype).removeprefix("torch."), f"{1e3 * softmax:.2f} ms"]
    structured = SplineCalibrator(transform="identity").fit(logits, y)
    against_rest = SplineCalibrator(transform="identity", multiclass="ovr").fit(logits, y)
    for calibrator, compiled in (
        (TemperatureCalibrator().fit(logits, y), False),
        (structured, False),
        (structured, True),
        (against_rest, False),
    ):
        module = to_torch(calibrator, dim=dim, dtype=dtype)
        if compiled:
            torch.compiler.reset()
            module = torch.compile(module, dynamic=False)
        with torch.no_grad():
            cells.append(f"{least_time(lambda module=module: module(scores)) / softmax:.1f}")  # type: ignore[misc]
    return cells


def main() -> None:
    """Measure, and write the table."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = [line(shape, dim, dtype) for shape, dim in SHAPES for dtype in (torch.float32, torch.float64)]
    text = f"""# A calibrator in PyTorch, in softmaxes

`python -m benchmarks.torch_module`, torch {torch.__version__}, one thread of a busy processor.
Logits of these shapes; times of `export.to_torch(calibrator, dim=, dtype=)` as multiples of `torch.softmax` of the same
tensor. Two classes: one curve.

{table(HEADER, rows)}

A structured map is three softmaxes, a logarithm, a curve and a product with a matrix, each of them passes over the
tensor. In float32, up to ten classes, it costs about one softmax, as short rows are slow for torch.softmax itself. With
a hundred or a thousand classes it is far from the three softmaxes that would be nice to have; `torch.compile` helps.
"""
    (Path(__file__).parent / "TORCH.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
