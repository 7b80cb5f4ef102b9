"""Arrays of other libraries: taken as numpy's, and given back as they came.

These are tensors of PyTorch, and what follows the array API standard, such as JAX, CuPy and array-api-strict.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Method = TypeVar("Method", bound=Callable[..., Any])


def is_tensor(values: Any) -> bool:
    """Whether it is a tensor of PyTorch; only if that is loaded can it be."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def is_foreign(values: Any) -> bool:
    """Whether it is an array of another library."""
    return is_tensor(values) or (
        hasattr(values, "__array_namespace__") and not isinstance(values, (np.ndarray, np.generic))
    )


def as_numpy(values: Any) -> NDArray[Any]:
    """Anything as an array of numpy; a tensor without its gradient, from any device."""
    if is_tensor(values):
        values = values.detach().cpu()
        return np.asarray(values.float() if values.dtype == sys.modules["torch"].bfloat16 else values)
    if not is_foreign(values):
        return np.asarray(values)
    if hasattr(values, "get"):  # CuPy
        return np.asarray(values.get())
    try:
        return np.asarray(values)
    except RuntimeError:  # it is on a device
        return np.asarray(np.from_dlpack(values))


def like(result: NDArray[Any], values: Any) -> Any:
    """An array of numpy as one of another library: on the device of ``values``, and probabilities in their type.

    Labels that the library cannot hold stay what they are.
    """
    if result.dtype.kind not in "fiub":
        return result
    if is_tensor(values):
        torch = sys.modules["torch"]
        floating = values.dtype if values.is_floating_point() else torch.get_default_dtype()
        return torch.as_tensor(result, dtype=floating if result.dtype.kind == "f" else None, device=values.device)
    xp = values.__array_namespace__()
    if result.dtype.kind != "f":
        return xp.asarray(result, device=values.device)
    given = xp.isdtype(values.dtype, "real floating")
    dtype = values.dtype if given else xp.__array_namespace_info__().default_dtypes()["real floating"]
    return xp.asarray(result, dtype=dtype, device=values.device)


def keeps_kind(method: Method) -> Method:
    """A calibrator's method of scores that gives back the kind of array that it is given.

    Tensors of PyTorch do not leave it, so that gradients flow, unless the calibrator has no formula for them, or the
    scores are wrong: of that the method itself can tell.
    """

    @wraps(method)
    def of_any_kind(self: Any, scores: Any, **more: Any) -> Any:
        if not is_foreign(scores):
            return method(self, scores, **more)
        if is_tensor(scores) and method.__name__ != "predict":
            from calspline.export.torch import calibrated_tensor

            result = calibrated_tensor(self, scores, **more, all_classes=method.__name__ == "predict_proba")
            if result is not None:
                return result
        return like(method(self, as_numpy(scores), **more), scores)

    return cast(Method, of_any_kind)
