"""Export to PyTorch modules."""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    import torch
    from torch import nn
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "to_torch needs torch: pip install 'calspline[torch]'"
    ) from error

from calspline._input.segment_labels import Known, check_by
from calspline.export.formulas import check_exportable
from calspline.maps.evaluators import evaluator_of, with_arrays
from calspline.maps.model import Model
from calspline.maps.namespaces import TORCH

BLOCK = 1 << 16
"""Numbers per block of rows, so that a few arrays of this size fit into the cache."""
TYPES = {None: np.float64, torch.float64: np.float64, torch.float32: np.float32}


def to_torch(calibrator: Any, *, dim: int = -1, dtype: Any = None) -> Any:
    """Export a calibrator to a PyTorch module.

    The module has buffers but no parameters. It can be compiled and exported
    (``torch.export``), and is differentiable with respect to the scores.

    Parameters
    ----------
    calibrator : fitted calibrator
        Calibrator to export.
    dim : int, default=-1
        Dimension of the classes: 1 for scores of shape (N, C, H, W).
    dtype : torch.float64 or torch.float32, optional
        Type of buffers, computations and results, which ``module.half()`` and similar
        methods do not change. By default, computations use float64 and results have the
        type of the scores. For float32, results agree with ``calibrate`` to 2e-5.

    Returns
    -------
    module : torch.nn.Module
        Module from scores to calibrated probabilities of the same shape. Scores must be
        of the same kind as in the fit: probabilities or margins (logits), one for each
        class along ``dim``. For two classes, a tensor of one dimension or of size 1
        along ``dim`` holds the scores of the second class. Invalid scores give NaN:
        margins that are not finite, and probabilities that do not sum to one or lie
        outside [0, 1].

        After a fit with ``by``, the module also takes codes of the segments:
        ``module(scores, module.codes(by))``. Codes are integers, one for each row, or
        for each image of shape (C, H, W); several columns of segments are stacked, as
        with ``torch.stack``. A code is the position of a segment in
        ``module.segments``; any other number stands for a new segment.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_torch
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(3000, 4))
    >>> y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> cal = SplineCalibrator().fit(2 * logits, y)
    >>> images = torch.randn(8, 4, 32, 32)
    >>> to_torch(cal, dim=1)(images).shape
    torch.Size([8, 4, 32, 32])

    After a network:

    >>> model = torch.nn.Sequential(torch.nn.Linear(5, 4), to_torch(cal))
    >>> model(torch.randn(3, 5)).shape
    torch.Size([3, 4])
    """
    model = check_exportable(calibrator)
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"dim must be an integer; got {dim!r}")
    if dtype not in TYPES:
        raise ValueError(
            f"dtype must be torch.float64, torch.float32 or None; got {dtype!r}"
        )
    return CalibratorModule(model, dim, dtype)


class CalibratorModule(nn.Module):  # type: ignore[misc]
    """Module that evaluates a calibrator, with its arrays as buffers."""

    def __init__(self, model: Model, dim: int, dtype: Any) -> None:
        super().__init__()
        self.dim = dim
        self.dtype = dtype
        self.n_classes = model.n_classes
        self.n_columns = len(model.segment_columns)
        labels = [list(column.known.labels) for column in model.segment_columns]
        self.segments = labels[0] if len(labels) == 1 else labels
        evaluator = evaluator_of(model, TYPES[dtype], cells=True)
        self.evaluator = with_arrays(evaluator, self._add)

    def _add(self, array: Any) -> BufferName:
        """Register a buffer and return its name."""
        name = BufferName(f"buffer_{len(self._buffers)}")
        self.register_buffer(name, torch.tensor(np.ascontiguousarray(array)))
        return name

    def forward(
        self, scores: torch.Tensor, by: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute calibrated probabilities in the shape of the scores.

        ``by`` holds the codes of the segments.

        ``by`` has the codes of segments.
        """
        if not scores.is_floating_point():
            raise TypeError("scores must be of a floating type")
        p = self._calibrate(scores.to(self.dtype or torch.float64), by)
        return p.to(scores.dtype) if self.dtype is None else p

    def _calibrate(self, scores: torch.Tensor, by: torch.Tensor | None) -> torch.Tensor:
        evaluator = with_arrays(self.evaluator, self.get_buffer, BufferName)
        size = 1 if scores.dim() < 2 else scores.size(self.dim)
        if self.n_classes > 2:
            if scores.dim() < 1 or scores.size(self.dim) != self.n_classes:
                raise ValueError(
                    f"scores must have the size {self.n_classes} along dim; got {size}"
                )
            codes = self._codes(by, scores.select(self.dim, 0))
            rows = scores.movedim(self.dim, -1)
            if not torch.compiler.is_compiling() and rows.numel() > 2 * BLOCK:
                p = evaluate_in_blocks(evaluator, rows, codes)
            else:
                p = evaluator.rows(TORCH, rows, codes)
            return p.movedim(-1, self.dim)
        if scores.dim() < 2:
            return evaluator.one(TORCH, scores, self._codes(by, scores))
        if size not in (1, 2):
            raise ValueError(f"scores must have the size 1 or 2 along dim; got {size}")
        columns = scores.unbind(self.dim)
        codes = self._codes(by, columns[0])
        if size == 1:
            return evaluator.one(TORCH, *columns, codes).unsqueeze(self.dim)
        p = evaluator.pair(TORCH, *columns, codes)
        return torch.stack([1.0 - p, p], self.dim)

    def codes(self, by: Any) -> torch.Tensor:
        """Encode segment labels; -1 stands for an unseen segment.

        Labels of another type than in the fit raise an error.
        """
        several = self.n_columns > 1
        codes = []
        for column, labels in zip(
            by if several else [by],
            self.segments if several else [self.segments],
            strict=True,
        ):
            [checked] = check_by([column], len(column)).columns
            codes.append(Known(labels).codes(checked).tolist())
        return torch.tensor(codes if several else codes[0])

    def _codes(
        self, by: torch.Tensor | None, rows: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Codes of each column of segments, in the shape of ``rows``."""
        if self.n_columns == 0:
            if by is not None:
                raise ValueError(
                    "by must not be given: the calibrator was fitted without segments"
                )
            return ()
        if by is None:
            by = torch.full([self.n_columns], -1, device=rows.device)
        elif self.n_columns == 1:
            by = by.unsqueeze(0)
        while by.dim() <= rows.dim():
            by = by.unsqueeze(-1)
        codes, _ = torch.broadcast_tensors(by, rows.unsqueeze(0))
        return tuple(codes.unbind(0))

    def _apply(self, function: Any, recurse: bool = True) -> Any:
        def move(tensor: Any) -> Any:
            """Move a buffer, but keep its type, since half precision is too coarse."""
            moved = function(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        return super()._apply(move, recurse)


class BufferName(str):
    """Name of a buffer, in place of an array of an evaluator."""


def evaluate_in_blocks(
    evaluator: Any, rows: torch.Tensor, codes: tuple[torch.Tensor, ...]
) -> torch.Tensor:
    """Evaluate rows in blocks that fit into the cache."""
    n_classes = rows.shape[-1]
    size = max(BLOCK // n_classes, 1)
    parts = rows.reshape(-1, n_classes).split(size)
    columns = [column.reshape(-1).split(size) for column in codes]
    blocks = [
        evaluator.rows(TORCH, part, tuple(column[k] for column in columns))
        for k, part in enumerate(parts)
    ]
    return torch.cat(blocks).reshape(rows.shape)
