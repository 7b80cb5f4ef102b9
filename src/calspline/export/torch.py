"""Calibrators as modules of PyTorch."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

try:
    import torch
    from torch import nn
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("to_torch needs torch: pip install 'calspline[torch]'") from error

from calspline.export import formula_of
from calspline.export.torch_graph import Writer
from calspline.expression import Formula
from calspline.options import check_fitted
from calspline.scores import ROW_SUM_TOLERANCE

TYPES = torch.float64, torch.float32
BLOCK = 1 << 16
"""Numbers to a block: a few arrays of it stay in the cache of a processor."""


def to_torch(calibrator: Any, *, dim: int = -1, dtype: Any = None) -> Any:
    """A fitted calibrator as a module of PyTorch, which runs where the network runs.

    It has buffers and no parameters. It can be scripted, traced, compiled and exported (``torch.export``), and
    gradients with respect to the scores flow through it.

    Parameters
    ----------
    calibrator : fitted calibrator
    dim : int, default=-1
        The dimension of the classes: 1 for images of scores, of shape (N, C, H, W).
    dtype : torch.float64 or torch.float32, optional
        The type of the buffers, of all calculations and of the result; ``module.half()`` and the like do not change it.
        None: float64, and the result has the type of the scores. In float32 results agree with those of ``calibrate``
        to 2e-6.

    Returns
    -------
    torch.nn.Module
        From scores to calibrated probabilities of the same shape. The scores are what the calibrator was fitted on:
        probabilities or margins (logits), one for each class along ``dim``. For two classes ``dim`` may have the size 1
        and, like a tensor of one dimension, hold the scores of the second class. What are no scores
        gives NaN: margins that are not finite, probabilities that do not sum to one or lie outside [0, 1].

        After a fit with segments it takes their codes, too: ``module(scores, module.codes(by))``. Codes are integers,
        one for each row of scores, or for each image of an (N, C, H, W); several columns of segments are stacked, as in
        ``torch.stack``. A code is the place of a segment in ``module.segments``; any other number, or none, is a new
        segment.

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
    """
    formula = formula_of(calibrator, segments=True)
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"dim must be an integer; got {dim!r}")
    if dtype not in (None, *TYPES):
        raise ValueError(f"dtype must be torch.float64, torch.float32 or None; got {dtype!r}")
    return (_Two if len(formula.classes) == 2 else _Many)(formula, dim, dtype)


class Calibrated(nn.Module):  # type: ignore[misc]
    """A network and its calibrator as one module.

    Parameters
    ----------
    network : torch.nn.Module
        Its output is what the calibrator was fitted on.
    calibrator : fitted calibrator, or a module that :func:`to_torch` made
    dim : int, default=-1
        The dimension of the classes, for :func:`to_torch`.
    dtype : torch.float64 or torch.float32, optional
        As for :func:`to_torch`.

    Examples
    --------
    >>> import torch
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import Calibrated
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Linear(5, 3)
    >>> features, y = torch.randn(500, 5), torch.randint(3, (500,))
    >>> cal = SplineCalibrator(transform="identity").fit(network(features).detach().numpy(), y.numpy())
    >>> model = Calibrated(network, cal)
    >>> model(features).sum(dim=1).allclose(torch.ones(500))
    True
    """

    def __init__(self, network: Any, calibrator: Any, *, dim: int = -1, dtype: Any = None) -> None:
        super().__init__()
        if not isinstance(network, nn.Module):
            raise TypeError(f"network must be a torch.nn.Module; got {type(network).__name__}")
        self.network = network
        self.calibrator = calibrator if isinstance(calibrator, _Module) else to_torch(calibrator, dim=dim, dtype=dtype)

    def forward(self, inputs: torch.Tensor, by: torch.Tensor | None = None) -> torch.Tensor:
        """Calibrated probabilities; ``by`` has the codes of segments, if the calibrator has any."""
        return self.calibrator(self.network(inputs), by)


_MODULES: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()
"""Modules of calibrators that were given tensors, with the curves and the shift that they are of."""


def calibrated_tensor(calibrator: Any, scores: torch.Tensor, by: Any = None, *, all_classes: bool) -> Any:
    """Calibrated probabilities of a tensor, in its shape or of ``all_classes``; None if that takes numpy."""
    check_fitted(calibrator)
    m, columns = len(calibrator.classes_), scores.shape[1] if scores.dim() == 2 else 1
    fits = scores.dim() in (1, 2) and (columns == m or (m == 2 and columns == 1))
    a_margin = m == columns == 2 and calibrator.kind_ == "margin" and not calibrator.difference_
    if not scores.is_floating_point() or not fits or a_margin:
        return None
    state = calibrator.curves_, getattr(calibrator, "_maps", None), calibrator.shift_
    known = _MODULES.get(calibrator)
    if known is None or any(old is not new for old, new in zip(known[0], state, strict=True)):
        try:
            known = state, to_torch(calibrator, dtype=torch.float32 if scores.device.type == "mps" else None)
        except TypeError:  # segments of a kind that has no export
            return None
        _MODULES[calibrator] = known
    codes = None
    if by is not None:
        found = calibrator.codes_of(by, len(scores))
        codes = torch.as_tensor(np.array(found if len(found) > 1 else found[0]), device=scores.device)
    p = known[1].to(scores.device)(scores, codes)
    if torch.isnan(p.detach()).any():
        return None
    if all_classes and m == 2 and columns == 1:
        p = p.reshape(-1)
        p = torch.stack([1.0 - p, p], dim=1)
    return p


class _Module(nn.Module):  # type: ignore[misc]
    def __init__(self, formula: Formula, dim: int, dtype: Any) -> None:
        super().__init__()
        self.dim = dim
        self.keeps_type = dtype is None
        self.n_columns = len(formula.lookups)
        segments = [list(lookup.labels) for lookup in formula.lookups]
        self.segments = segments[0] if len(segments) == 1 else segments

    def forward(self, scores: torch.Tensor, by: torch.Tensor | None = None) -> torch.Tensor:
        """Calibrated probabilities in the shape of the scores; ``by`` has the codes of segments."""
        if not scores.is_floating_point():
            raise TypeError("scores must be of a floating type")
        p = self._calibrated(scores, by)
        return p.to(scores.dtype) if self.keeps_type else p

    def codes(self, by: Any) -> torch.Tensor:
        """The codes of labels of segments: -1 for those that the fit has not seen."""
        several = self.n_columns > 1
        found = []
        for column, labels in zip(by if several else [by], self.segments if several else [self.segments], strict=True):
            place = {label: code for code, label in enumerate(labels)}
            found.append([place.get(label, -1) for label in (column.tolist() if hasattr(column, "tolist") else column)])
        return torch.tensor(found if several else found[0])

    def _codes(self, by: torch.Tensor | None, rows: torch.Tensor) -> torch.Tensor:
        """Codes for each column of segments, in the shape of ``rows``; without segments, what nothing reads."""
        if self.n_columns == 0:
            if by is not None:
                raise ValueError("by must not be given: the calibrator was fitted without segments")
            return rows.unsqueeze(0)
        if by is None:
            by = torch.full([self.n_columns], -1, device=rows.device)
        elif self.n_columns == 1:
            by = by.unsqueeze(0)
        while by.dim() <= rows.dim():
            by = by.unsqueeze(-1)
        return torch.broadcast_tensors(by, rows.unsqueeze(0))[0]

    def _apply(self, function: Any, recurse: bool = True) -> Any:
        def moved(tensor: Any) -> Any:
            """Buffers move, but keep their type: a curve in half precision is none."""
            changed = function(tensor)
            return changed if changed.dtype == tensor.dtype else tensor.to(changed.device)

        return super()._apply(moved, recurse)


class _Two(_Module):
    """Two classes: the score of the second, or of both."""

    def __init__(self, formula: Formula, dim: int, dtype: Any) -> None:
        super().__init__(formula, dim, dtype)
        self.one, self.pair = _graph(formula, dtype), _graph_of_pair(formula, dtype)

    def _calibrated(self, scores: torch.Tensor, by: torch.Tensor | None) -> torch.Tensor:
        columns = [scores] if scores.dim() < 2 else scores.unbind(self.dim)
        if len(columns) < 1 or len(columns) > 2:
            raise ValueError(f"scores must have the size 1 or 2 along dim; got {len(columns)}")
        codes = self._codes(by, columns[0])
        if len(columns) == 2:
            p = self.pair(columns[0], columns[1], codes)
            return torch.stack([1.0 - p, p], self.dim)
        if scores.dim() > 1:
            codes = codes.unsqueeze(self.dim + 1 if self.dim >= 0 else self.dim)
        return self.one(scores, codes)


class _Many(_Module):
    """Three or more classes: a score for each along ``dim``."""

    def __init__(self, formula: Formula, dim: int, dtype: Any) -> None:
        super().__init__(formula, dim, dtype)
        self.n_classes = len(formula.classes)
        self.rows = _graph(formula, dtype, axis=-1 if dim == -1 else -2)

    def _calibrated(self, scores: torch.Tensor, by: torch.Tensor | None) -> torch.Tensor:
        if not torch.jit.is_tracing() and scores.size(self.dim) != self.n_classes:
            raise ValueError(f"scores must have the size {self.n_classes} along dim; got {scores.size(self.dim)}")
        codes = self._codes(by, scores.select(self.dim, 0))
        if self.dim == -1:
            rows, codes, along = scores, codes, 0
        else:
            after = self.dim + 1 if self.dim >= 0 else self.dim + scores.dim() + 1
            rows, codes, along = scores.unsqueeze(-1).flatten(after), codes.unsqueeze(-1).flatten(after), -1
        if torch.jit.is_scripting() or torch.jit.is_tracing() or torch.compiler.is_compiling():
            return self.rows(rows, codes).reshape(scores.shape)
        return self._by_blocks(rows, codes, along).reshape(scores.shape)

    @torch.jit.unused  # type: ignore[untyped-decorator]
    def _by_blocks(self, rows: torch.Tensor, codes: torch.Tensor, along: int) -> torch.Tensor:
        """The same in parts, since what stays in the processor's cache is faster."""
        size = max(rows.shape[along] * BLOCK // max(rows.numel(), 1), 1)
        if size >= rows.shape[along]:
            return self.rows(rows, codes)
        parts = zip(rows.split(size, along), codes.split(size, along + 1 if along >= 0 else along), strict=True)
        return torch.cat([self.rows(*part) for part in parts], along)


def _graph(formula: Formula, dtype: Any, axis: int | None = None) -> Any:
    """From one score or, along an ``axis``, from rows of them."""
    writer = Writer(formula, dtype or torch.float64, axis)
    scores = writer.input("scores")
    writer.look_up()
    doubt = writer.doubt(scores) if axis is None else writer.doubt_of_rows(scores)
    return writer.module(writer.value(formula.program, {"p": writer.proper(scores)}, doubt))


def _graph_of_pair(formula: Formula, dtype: Any) -> Any:
    writer = Writer(formula, dtype or torch.float64)
    first, second = writer.input("first"), writer.input("second")
    writer.look_up()
    doubt = writer.doubt(first) + writer.doubt(second)
    if not formula.difference:  # two margins where the fit was on one are refused, as in Python
        doubt = doubt + writer.zero_or_nan(torch.abs(first.detach() + second.detach() - 1.0) <= ROW_SUM_TOLERANCE)
    rest, p = writer.proper(first), writer.proper(second)
    if formula.kind == "margin" and formula.difference:
        p = p - rest
    assert formula.from_pair is not None
    return writer.module(writer.value(formula.from_pair, {"p": p, "rest": rest}, doubt))
