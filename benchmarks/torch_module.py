"""What a calibrator costs in PyTorch, in softmaxes: ``python -m benchmarks.torch_module`` writes TORCH.md.

One thread; the least processor time of many runs. A softmax of the same tensor along
the same dimension is the unit. The floor is what torch takes for the operations that a
structured map cannot do without: three softmaxes, a logarithm, two numbers from a
table, a product with the matrix.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.tables import table
from calspline import SplineCalibrator, TemperatureCalibrator
from calspline.export import to_torch

SHAPES = [
    ((100_000, 2), -1),
    ((10_000, 10), -1),
    ((2_500, 100), -1),
    ((250, 1000), -1),
    ((2, 21, 128, 128), 1),
]
ROWS, RUNS, ROUNDS = 5000, 25, 5
HEADER = [
    "scores",
    "type",
    "softmax",
    "temperature",
    "spline, structured",
    "its floor",
    "spline, one against the rest",
]


def least_time(run: Callable[[], Any]) -> float:
    """Seconds of a processor of the fastest of many runs."""
    run()
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def floor(scores: Any, dim: int, *, matrix: bool) -> float:
    """Seconds for what a structured map cannot do without, operation by operation."""
    m, table = scores.shape[dim], torch.rand(1000, dtype=scores.dtype)
    W, index = (
        torch.rand(m, m, dtype=scores.dtype),
        torch.randint(1000, (scores.numel(),), dtype=torch.int32),
    )
    p = torch.softmax(scores, dim)
    images = p.flatten(2) if dim == 1 else p
    seconds = (
        3.0 * least_time(lambda: torch.softmax(scores, dim))
        + least_time(lambda: torch.log(p))
        + 2.0 * least_time(lambda: torch.index_select(table, 0, index))
    )
    if matrix:
        seconds += least_time(
            lambda: (
                torch.matmul(W, images)
                if dim == 1
                else torch.nn.functional.linear(p, W)
            )
        )
    return seconds


def lines(shape: tuple[int, ...], dim: int) -> list[list[str]]:
    """Lines of the table, one for each type of numbers."""
    rng = np.random.default_rng(0)
    m = shape[dim]
    logits = 2.0 * rng.normal(size=(max(ROWS, 10 * m), m))
    y = (logits + rng.gumbel(size=logits.shape) + 0.3 * rng.normal(size=m)).argmax(
        axis=1
    )
    y[:m] = np.arange(m)
    calibrators = (
        TemperatureCalibrator().fit(logits, y),
        SplineCalibrator(scale="identity").fit(logits, y),
        SplineCalibrator(scale="identity", multiclass="ovr").fit(logits, y),
    )
    W = calibrators[1].structure_.W if m > 2 else None
    found = []
    for dtype in (torch.float32, torch.float64):
        scores = 3.0 * torch.randn(shape, dtype=dtype)
        modules = [
            to_torch(calibrator, dim=dim, dtype=dtype) for calibrator in calibrators
        ]
        softmax, seconds = np.inf, np.full(4, np.inf)
        for _ in range(
            ROUNDS
        ):  # in turns, so that a busy spell does not meet one of them alone
            softmax = min(
                softmax,
                least_time(partial(torch.softmax, scores, dim)),
            )
            now = [least_time(partial(module, scores)) for module in modules]
            now.insert(2, floor(scores, dim, matrix=W is not None and W.ndim == 2))
            seconds = np.minimum(seconds, now)
        cells = [
            "x".join(map(str, shape)),
            str(dtype).removeprefix("torch."),
            f"{1e3 * softmax:.2f} ms",
        ]
        cells += [f"{each / softmax:.1f}" for each in seconds]
        cells[5] = cells[5] if m > 2 else ""
        print(*cells, file=sys.stderr, flush=True)
        found.append(cells)
    return found


def main() -> None:
    """Measure, and write the table."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    rows = [cells for shape, dim in SHAPES for cells in lines(shape, dim)]
    text = f"""# A calibrator in PyTorch, in softmaxes

`python -m benchmarks.torch_module`, torch {torch.__version__}, one thread of a busy processor, processor time.
Logits of these shapes; times of `export.to_torch(calibrator, dim=, dtype=)` as multiples of `torch.softmax` of the same
tensor. Two classes: one curve.

{table(HEADER, rows)}

A structured map is three softmaxes, a logarithm, a curve and a product with a matrix.
The floor is the time of these operations alone, with two numbers looked up for the
curve; the rest is passes over the tensor for sums, limits and places in the table, and
the memory for what is in between. torch.softmax is slow on short rows, so the module
has its own. The map of 1,000 classes has a diagonal instead of a matrix.

Two things are more than a plain evaluation needs, because they pay. Curves are tables
on cells of equal width, of cubics in float64 and of lines in float32: a bisection of
the breaks takes 1.3 to 2.5 times as long for one curve, and 1.2 to 5 times for a curve
per class. More than 131,072 numbers are evaluated in blocks of 65,536, which halves the
time of a million numbers in float64.

Compared in turns with modules that `torch.fx` compiled from a formula for each
calibrator, with the same tables, splines of 2, 10, 100 and 1,000 classes take 0.9 to
1.5 times as long (images: 1.0 to 1.9), and temperatures 0.8 to 1.7 times; a line, which
two classes have with a temperature, 2.5 times, as it is evaluated like any curve, and
images in float32 2.9 times.
"""
    (Path(__file__).parent / "TORCH.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
