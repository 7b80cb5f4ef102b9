"""Array namespaces: the functions of an array library under standard names.

The standard is the Python array API, https://data-apis.org/array-api. NumPy and JAX
follow it. PyTorch does but for a few functions, which are here.
"""

from __future__ import annotations

import sys
from typing import Any

from calspline._arrays import is_tensor


class TorchNamespace:
    """Functions of PyTorch, those with other names or arguments under standard ones."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules["torch"], name)

    def astype(self, x: Any, dtype: Any) -> Any:
        """Convert to another type."""
        return x.to(dtype)

    def sum(self, x: Any, axis: int, keepdims: bool) -> Any:
        """Sum along an axis."""
        return x.sum(dim=axis, keepdim=keepdims)

    def max(self, x: Any, axis: int, keepdims: bool) -> Any:
        """Return the largest value along an axis."""
        return x.amax(dim=axis, keepdim=keepdims)

    def min(self, x: Any, axis: int, keepdims: bool) -> Any:
        """Return the smallest value along an axis."""
        return x.amin(dim=axis, keepdim=keepdims)

    def argmax(self, x: Any, axis: int, keepdims: bool) -> Any:
        """Return the place of the largest value along an axis."""
        return x.argmax(dim=axis, keepdim=keepdims)

    def clip(self, x: Any, min: Any = None, max: Any = None) -> Any:
        """Limit values from below, above, or both."""
        return x.clamp(min, max)

    def stack(self, arrays: Any, axis: int) -> Any:
        """Stack along a new axis."""
        return sys.modules["torch"].stack(arrays, axis)

    def take(self, x: Any, indices: Any, axis: int) -> Any:
        """Select elements along an axis."""
        return x.index_select(axis, indices)

    def searchsorted(self, x1: Any, x2: Any, side: str) -> Any:
        """Find where values belong among sorted ones."""
        return sys.modules["torch"].bucketize(
            x2.contiguous(), x1, right=side == "right", out_int32=True
        )


TORCH = TorchNamespace()


def namespace_of(values: Any) -> Any:
    """The array namespace of an array or a tensor."""
    return TORCH if is_tensor(values) else values.__array_namespace__()
