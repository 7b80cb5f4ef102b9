"""Spline fits: rows, or what they add up to, in; a model out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import one_blas_thread
from calspline._input.hints import (
    warn_if_columns_shuffled,
    warn_if_reversed,
    warn_that_scores_are_equal,
)
from calspline._input.scores import ScoreKind
from calspline._input.weights import row_weight
from calspline.fits.class_segments import fit_class_segments
from calspline.fits.grouped import GroupedRows, estimate_dependence
from calspline.fits.one_vs_rest import fit_one_vs_rest, share_out_classes
from calspline.fits.options import Recipe
from calspline.fits.rows import BinaryRows, MatrixRows
from calspline.fits.segments import fit_segments
from calspline.fits.structured import fit_structure
from calspline.fits.summaries import reference_of_classes
from calspline.fits.validated import fit_curve
from calspline.fitting.groups import Parts
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.histograms.segment_histogram import SegmentHistograms
from calspline.maps.base import CalibrationMap
from calspline.maps.fit_info import FitInfo, FittedCurve
from calspline.maps.model import Model
from calspline.maps.one_vs_rest import OneVsRest
from calspline.maps.segmented_classes import SegmentedClasses
from calspline.multiclass.one_vs_rest import AgainstRest, tempered
from calspline.multiclass.scale import rows_are_alike, unit_of_logits


def fit_binary(rows: BinaryRows, recipe: Recipe) -> Model:
    """Fit two classes."""
    histogram = ScoreHistogram.collect(rows.scores, rows.positive, rows.weight)
    histogram = histogram.of_classes(rows.classes)
    counts = None
    if rows.by is not None:
        counts = SegmentHistograms.collect(
            histogram, rows.scores, rows.positive, rows.weight, rows.by
        )
    fitted_to = histogram
    parts = None
    if rows.groups is not None:
        fitted_to, parts, recipe = _share_out(rows, histogram, recipe)
    model = fit_histogram(
        histogram,
        rows.classes,
        rows.kind,
        recipe,
        counts=counts,
        fitted_to=fitted_to,
        parts=parts,
    )
    effect = model.fit.design_effect * row_weight(rows.weight)
    warn_if_reversed(histogram.counts, rows.classes, effect)
    return model


def _share_out(
    rows: BinaryRows, histogram: ScoreHistogram, recipe: Recipe
) -> tuple[ScoreHistogram, Parts | None, Recipe]:
    """The histogram with the weights that grouped rows count for.

    Also whole groups to leave out together, and the recipe with its design effects.
    """
    assert rows.groups is not None
    grouped = GroupedRows(rows.weight, rows.groups)
    segments = [] if rows.by is None else [column.codes for column in rows.by.columns]
    residuals = grouped.residuals(histogram, rows.scores, rows.positive, segments)
    contrasts = [residuals.contrast_effect(rows.groups)] if segments else []
    sums = residuals.sums(rows.groups)
    dependence = estimate_dependence([sums], contrasts, grouped.sizes)
    shared = grouped.shared(dependence)
    recipe = dependence.in_recipe(recipe, grouped.sizes)
    fitted_to = histogram
    if shared is not grouped:
        fitted_to = ScoreHistogram.collect(rows.scores, rows.positive, shared.weight)
    parts = shared.parts(fitted_to, rows.scores, rows.positive, recipe)
    return fitted_to, parts, recipe


def fit_histogram(
    histogram: ScoreHistogram,
    classes: NDArray[Any],
    kind: ScoreKind,
    recipe: Recipe,
    *,
    counts: SegmentHistograms | None = None,
    fitted_to: ScoreHistogram | None = None,
    parts: Parts | None = None,
    n_effective: float | None = None,
) -> Model:
    """Fit two classes from their histogram, with segments if there are ``counts``.

    The curve is that of ``fitted_to``, the same rows with other weights, if given.
    """
    with one_blas_thread():
        fitted = fit_curve(fitted_to or histogram, recipe, parts)
        fitted_map: CalibrationMap[Any] = fitted.curve
        if counts is not None:
            fitted, fitted_map = fit_segments(counts, fitted, recipe)
    if np.isinf(fitted.smoothing):
        warn_that_scores_are_equal()
    if n_effective is None:
        n_effective = histogram.total / recipe.design_effect
    info = FitInfo(
        n_effective,
        recipe.design_effect,
        fitted.converged,
        (fitted,),
        histogram=histogram,
        segment_histograms=counts,
    )
    return Model(classes, kind, fitted_map, info)


def fit_multiclass(rows: MatrixRows, recipe: Recipe, multiclass: str) -> Model:
    """Fit three or more classes."""
    structured = multiclass == "structured"
    keeps_ranking = structured and recipe.monotone is True
    if not keeps_ranking and rows_are_alike(rows.scores):
        warn_that_scores_are_equal()
        # Each row of logits may have a constant of its own, which leaves rounding.
        first = np.repeat(rows.scores.values[:1], len(rows.codes), axis=0)
        rows = replace(rows, scores=replace(rows.scores, values=first))
        structured = False  # a curve per class gives the base rates
    with one_blas_thread():
        grouped = None
        if rows.groups is not None:
            grouped, recipe = _share_out_classes(rows, recipe)
        fit = _fit_structured if structured else _fit_one_vs_rest
        fitted_map, info = fit(rows, recipe, grouped)
    values = rows.scores.values
    warn_if_columns_shuffled(
        values, rows.codes, rows.weight, rows.classes, info.design_effect
    )
    reference = reference_of_classes(rows, fitted_map)
    return Model(
        rows.classes, rows.kind, fitted_map, replace(info, reference=reference)
    )


def _share_out_classes(rows: MatrixRows, recipe: Recipe) -> tuple[GroupedRows, Recipe]:
    """The weights that grouped rows count for, and the recipe with design effects."""
    assert rows.groups is not None
    grouped = GroupedRows(rows.weight, rows.groups)
    segments = [] if rows.by is None else [column.codes for column in rows.by.columns]
    columns, _ = _against_rest(rows, recipe)
    return share_out_classes(columns, rows.codes, grouped, recipe, segments)


def _against_rest(rows: MatrixRows, recipe: Recipe) -> tuple[AgainstRest, float]:
    """Each class's score against the rest, and the unit of logits."""
    scores = rows.scores
    unit = unit_of_logits(scores, rows.codes, rows.weight)
    if scores.kind == "margin":
        scores = tempered(scores.values, unit)
    return AgainstRest(scores, recipe.of_classes(rows.scores.kind).scale), unit


def _fit_one_vs_rest(
    rows: MatrixRows, recipe: Recipe, grouped: GroupedRows | None
) -> tuple[CalibrationMap[Any], FitInfo]:
    """Fit a curve for each class against the rest: the paper's Algorithm 3."""
    columns, unit = _against_rest(rows, recipe)
    recipe = recipe.of_classes(rows.scores.kind)
    weight = rows.weight if grouped is None else grouped.weight
    fits = fit_one_vs_rest(columns, rows.codes, weight, recipe, grouped)
    counts = []
    if rows.by is not None:
        for j in range(rows.n_classes):
            column = columns[j]
            of_class = rows.codes == j
            histogram = ScoreHistogram.collect(column, of_class, rows.weight)
            counts.append(
                SegmentHistograms.collect(
                    histogram, column, of_class, rows.weight, rows.by
                )
            )
    return one_vs_rest_map(fits, counts, rows.total, recipe, unit)


def one_vs_rest_map(
    fits: list[FittedCurve],
    counts: Sequence[SegmentHistograms],
    total: float,
    recipe: Recipe,
    unit: float,
) -> tuple[CalibrationMap[Any], FitInfo]:
    """Curves of all classes as one map, with segments if there are ``counts``."""
    maps: list[Any] = [fitted.curve for fitted in fits]
    if counts:
        pairs = zip(counts, fits, strict=True)
        results = [fit_segments(each, fitted, recipe) for each, fitted in pairs]
        fits = [fitted for fitted, _ in results]
        maps = [segmented for _, segmented in results]
    effect = recipe.design_effect
    converged = all(fitted.converged for fitted in fits)
    info = FitInfo(total / effect, effect, converged, tuple(fits))
    own_only = recipe.scale == "identity"
    return OneVsRest(tuple(maps), own_only=own_only, unit=unit), info


def _fit_structured(
    rows: MatrixRows, recipe: Recipe, grouped: GroupedRows | None
) -> tuple[CalibrationMap[Any], FitInfo]:
    """Fit one curve shared by all classes, a matrix and intercepts."""
    weight = rows.weight if grouped is None else grouped.weight
    structure = fit_structure(rows.scores, rows.codes, weight, recipe)
    converged = structure.converged
    fitted_map: CalibrationMap[Any] = structure
    if rows.by is not None:
        p = structure.probabilities(rows.scores)
        segments, done = fit_class_segments(
            rows.scores, p, rows.codes, rows.weight, rows.by, recipe
        )
        converged = converged and done
        fitted_map = SegmentedClasses(structure, segments)
    effect = recipe.design_effect
    return fitted_map, FitInfo(rows.total / effect, effect, converged)
