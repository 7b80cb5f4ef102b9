"""Structured multiclass calibration: options in, map out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.binary_fit import Recipe
from calspline.fitting.smoothing import SMOOTHING_LIMITS
from calspline.multiclass.curve_basis import N_KNOTS
from calspline.multiclass.structured_fit import fit_structured
from calspline.multiclass.structured_map import GROUPS, StructuredMap
from calspline.scores import MatrixScores


def fit_structure(scores: MatrixScores, codes: NDArray[np.intp], weight: Array | None, recipe: Recipe) -> StructuredMap:
    """Fit one shared curve, a matrix and intercepts."""
    _check(recipe)
    values = scores.values.astype(np.float64, copy=False)
    if scores.kind == "probability":
        with np.errstate(divide="ignore"):
            values = np.log(values)
    w = np.ones(len(values)) if weight is None else weight
    strength = None if isinstance(recipe.smoothing, str) else float(np.clip(recipe.smoothing, *SMOOTHING_LIMITS))
    fit = fit_structured(
        values,
        codes,
        w,
        monotone=recipe.monotone,
        curve_strength=strength,
        n_knots=N_KNOTS if recipe.n_knots is None else recipe.n_knots,
    )
    return StructuredMap(**vars(fit))


def _check(recipe: Recipe) -> None:
    """Options that a structured fit could only ignore are errors."""
    for name, value, allowed in (
        ("transform", recipe.transform, ("auto", "identity")),
        ("penalty", recipe.penalty, ("curvature",)),
        ("loss", recipe.loss, ("log",)),
    ):
        if value not in allowed:
            shown = " or ".join(repr(choice) for choice in allowed)
            raise ValueError(
                f'{name} must be {shown} with multiclass="structured"; got {value!r}. Use multiclass="ovr".'
            )
    if isinstance(recipe.smoothing, str) and recipe.smoothing != "reml":
        raise ValueError(f'smoothing must be "reml" or a number with multiclass="structured"; got {recipe.smoothing!r}')
    if not isinstance(recipe.knots, str) or recipe.knots != "quantile":
        raise ValueError('knots must be "quantile" with multiclass="structured"')


def describe(structure: StructuredMap) -> list[str]:
    """Lines of a summary: temperature, and what each part spends and how strongly it is shrunk."""
    lines = [f"  inverse temperature {structure.scale.beta:.4g}"]
    for name, strength, effective in zip(GROUPS, structure.strengths, structure.effective, strict=True):
        used = "not used" if np.isinf(strength) else f"strength {strength:.3g}, {effective:.1f} effective parameters"
        lines.append(f"  {name}: {used}")
    return lines
