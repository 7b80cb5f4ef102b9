"""From a histogram to a calibration curve, as the options say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, Counts
from calspline.curve import CalibrationCurve, line
from calspline.fitting.criteria import CRITERIA, EVIDENCE, Criterion
from calspline.fitting.fit import SPREAD, Shape, SplineTask, default_count, quantile_knots, sampled_knots
from calspline.fitting.groups import (
    MOST_LEFT_OUT,
    GroupMoments,
    GroupSizes,
    Parts,
    PooledLine,
    deal_groups,
    design_effect,
)
from calspline.fitting.newton import brier_loss, log_loss
from calspline.fitting.smoothing import FIXED_SPREAD, SPREADS, SearchOptions, fixed
from calspline.histogram import ScoreHistogram
from calspline.options import BOOLEAN, Integer, Number, Numbers, Record, optional
from calspline.scores import BinaryScores, Kind, check_binary_scores
from calspline.transforms import (
    LOGIT_CLIP,
    SMALLEST_PROBABILITY,
    TRANSFORMS,
    ZERO,
    Transform,
    epsilon_from_log_odds,
    exactly_one,
    expit,
)

MIN_KNOT_GAP = 1e-9
FARTHEST_KNOT = 1e6
"""Knots may span this many times the range of the scores; beyond, rounding eats the fit."""
MAX_USED = 0.5
"""A curve with more degrees of freedom per knot may be held back by its knots rather than by the penalty, and is
fitted again with twice as many..."""
MAX_ROOM = 128
"""...up to this number: the work grows with its cube."""
EXTREME_LOG_ODDS = 10.0
EXTREME_SHARE = 0.05
"""``asinh_logit`` is considered if more than this share of the rows is more extreme."""
CLEAR_EVIDENCE = 5.0
"""Log Bayes factor that it then takes to leave ``logit``: "very strong" on the scale of Kass and Raftery (1995)."""

# How far out the scores of a fit may count. An exact 0 or 1 is as a rule a vote of a few trees or neighbours, or a
# rounded number, and no log-odds of 20: it belongs about one step beyond the other scores. One margin of a million
# among thousands of order one would have the whole curve to itself. So a fit takes scores beyond two limits for the
# limits, and its curve is flat, or nearly so, from there on.
NEARLY_FLAT = 1e-4
"""Slope that is left to the log-odds beyond the limits of probabilities: enough to keep their ranking."""
ATOM = np.array([0.5, 0.25])
"""Where an exact 1 may be put: what is left to 1, as a share of what the nearest other score leaves."""
TAIL, REACH = 0.05, 3.0
"""Margins count up to this many times the distance of two quantiles from either of them."""


@dataclass(frozen=True)
class Recipe:
    """Checked options of a spline fit; see :class:`~calspline.SplineCalibrator`."""

    transform: str = "auto"
    epsilon: float | Literal["auto"] = "auto"
    knots: Literal["quantile", "sample"] | Array = "quantile"
    n_knots: int | None = None
    penalty: Literal["curvature", "ridge"] = "curvature"
    smoothing: str | float = "reml"
    smoothing_grid: Array | None = None
    cv: int = 5
    loss: Literal["log", "brier"] = "log"
    monotone: bool | Literal["auto"] = "auto"
    seed: int = 0
    design_effect: float = 1.0
    """Rows count one divided by this, as they depend on each other: no option, but what the rows say."""

    @property
    def criterion(self) -> Criterion | None:
        """What chooses the smoothing, if it is not given as a number."""
        return CRITERIA[self.smoothing] if isinstance(self.smoothing, str) else None

    @property
    def by_evidence(self) -> bool:
        """Whether the marginal likelihood chooses the smoothing."""
        return self.criterion is not None and self.criterion.is_evidence

    @property
    def link(self) -> Literal["logit", "identity"]:
        """What the curve is of: log-odds or probabilities."""
        return "logit" if self.loss == "log" else "identity"


def recipe_kind(transform: str) -> Kind | None:
    """The kind of scores a transform asks for; None leaves it to the scores."""
    if transform == "auto":
        return None
    return "probability" if TRANSFORMS[transform].takes_probabilities else "margin"


def matrix_kind(transform: str) -> Literal["probability", "auto", "either"]:
    """The same for three or more columns; identity takes logits and probabilities."""
    if transform == "auto":
        return "auto"
    return "probability" if TRANSFORMS[transform].takes_probabilities else "either"


@dataclass(frozen=True)
class GroupedRows:
    """Rows in groups: the weight of each row, and the number of its group."""

    weight: Array | None
    group: NDArray[np.intp]

    @cached_property
    def sizes(self) -> Array:
        """The weight of each group."""
        return np.bincount(self.group, weights=self.weight).astype(np.float64)

    def moments(self, histogram: ScoreHistogram, scores: BinaryScores, positive: NDArray[np.bool_]) -> GroupMoments:
        """What the groups say about scores, of which the histogram is given too."""
        line = pooled_line(histogram)
        return GroupMoments.of(line.sums(scores.locations(), positive, self.weight, self.group))

    def design_effect(self, moments: Sequence[GroupMoments]) -> float:
        """By how much the rows are too many, given the moments of one class or of several."""
        return design_effect(moments, GroupSizes.of(self.group, self.weight))

    def parts(
        self, histogram: ScoreHistogram, scores: BinaryScores, positive: NDArray[np.bool_], recipe: Recipe
    ) -> Parts | None:
        """Whole groups to leave out together, if rows are left out to choose the smoothing."""
        criterion = recipe.criterion
        if criterion is None or criterion.is_evidence:
            return None
        k = min(MOST_LEFT_OUT if criterion.leaves_one_out else recipe.cv, len(self.sizes))
        part = deal_groups(self.sizes, k, recipe.seed)[self.group]
        return Parts(*histogram.divided(scores, positive, self.weight, part))


def pooled_line(histogram: ScoreHistogram) -> PooledLine:
    """The line of log-odds that fits all rows of a histogram best."""
    locations = np.clip(histogram.locations, *_limits("logit", histogram, Recipe()))
    return PooledLine.fitted(Counts(locations, histogram.positives, histogram.negatives))


FIT = Record(
    "fit",
    {
        "smoothing": optional(Number(not_negative=True)),
        "grid": Numbers(),
        "criterion": Numbers(),
        "edf": Number(not_negative=True),
        "converged": BOOLEAN,
        "n_iter": Integer(least=0),
    },
)
"""How a curve came about, in a file."""


@dataclass(frozen=True)
class FittedCurve:
    """A curve and how it came about. ``smoothing`` is infinite where all scores are equal."""

    curve: CalibrationCurve
    smoothing: float
    grid: Array
    criterion: Array
    edf: float
    converged: bool
    n_iter: int

    def to_dict(self) -> dict[str, Any]:
        """How the curve came about, as JSON values; an infinite smoothing becomes null."""
        return FIT.described(self, smoothing=self.smoothing if np.isfinite(self.smoothing) else None)

    @classmethod
    def restored(cls, curve: CalibrationCurve, read: dict[str, Any]) -> FittedCurve:
        """The fit of a curve that :meth:`to_dict` described, checked as ``FIT``."""
        if len(read["grid"]) != len(read["criterion"]):
            raise ValueError("grid and criterion must have the same length")
        return cls(curve, **read | {"smoothing": np.inf if read["smoothing"] is None else read["smoothing"]})


def fit_curve(histogram: ScoreHistogram, recipe: Recipe, parts: Parts | None = None) -> FittedCurve:
    """Fit the curve of a histogram that holds both classes; ``parts`` of its weights are left out together."""
    total, transforms = histogram.total / recipe.design_effect, _transforms(histogram, recipe)
    tasks = ((each, _task(each, histogram, recipe, parts)) for each in transforms)
    rivals = [(each, task) for each, task in tasks if task is not None]
    if not rivals:
        where = float(transforms[0](histogram.scores[:1])[0])
        return constant_fit(transforms[0], where, histogram.base_rate, total, recipe)
    options = SearchOptions(recipe.smoothing_grid, recipe.cv, recipe.seed)
    (transform, task), choice = rivals[0], None
    if len(rivals) > 1:
        choices = [EVIDENCE.search(task, options) for _, task in rivals]
        first, second = (each.criterion.min() for each in choices)
        clear = int(second < first - CLEAR_EVIDENCE)
        (transform, task), choice = rivals[clear], choices[clear]
    if recipe.criterion is None:
        choice = fixed(task.problem, task.coordinates, float(recipe.smoothing))
    elif choice is None or not recipe.by_evidence:
        choice = recipe.criterion.search(task, options)
    fit = task.finish(choice)
    curve = CalibrationCurve(
        transform,
        fit.breaks,
        fit.coefficients,
        origin=fit.origin,
        unit=fit.unit,
        link=recipe.link,
        clip=_clip(recipe, total),
        **{} if fit.spread is None else {what: partial(getattr, fit.spread, what) for what in SPREAD},
    )
    smoothing = choice.smoothing if choice.average is None else choice.average.smoothing
    fitted = FittedCurve(curve, smoothing, choice.grid, choice.criterion, fit.edf, fit.converged, fit.n_iter)
    # Where REML used up the knots, it gets more. To leave-one-out and folds a crowd of parameters may just be noise.
    free, count = recipe.n_knots is None and isinstance(recipe.knots, str) and recipe.by_evidence, len(fit.breaks)
    while free and fitted.edf > MAX_USED * count and count < MAX_ROOM:
        more = replace(recipe, transform=transform.name, n_knots=min(2 * count, MAX_ROOM))
        roomier = fit_curve(histogram, more)
        if not roomier.converged or len(roomier.curve.breaks) <= count:  # no more values to put them at
            break
        fitted, count = roomier, len(roomier.curve.breaks)
    return fitted


def _transforms(histogram: ScoreHistogram, recipe: Recipe) -> list[Transform]:
    """What the recipe says; else ``logit``, with ``asinh_logit`` as a rival if many scores are extreme."""
    name = recipe.transform
    if name == "auto" and (histogram.kind == "margin" or recipe.loss == "brier"):
        name = "identity"
    if name not in ("auto", "logit"):
        if not TRANSFORMS[name].takes_epsilon:
            return [Transform(name)]
        epsilon = epsilon_from_log_odds(histogram.highest) if recipe.epsilon == "auto" else recipe.epsilon
        return [Transform(name, epsilon)]
    u, w, limits = histogram.locations, histogram.positives + histogram.negatives, _limits("logit", histogram, recipe)
    extreme = (np.abs(u) > LOGIT_CLIP) & (u > ZERO) & ~exactly_one(u)
    # The logit is wide enough to tell scores beyond its usual clip apart, if there are any.
    logit = Transform("logit", SMALLEST_PROBABILITY if extreme.any() and np.isfinite(limits).all() else None)
    far = np.abs(np.clip(u, *limits)) > EXTREME_LOG_ODDS
    rival = name == "auto" and w[far].sum() > EXTREME_SHARE * w.sum()
    return [logit, Transform("asinh_logit")] if rival else [logit]


def _task(
    transform: Transform, histogram: ScoreHistogram, recipe: Recipe, parts: Parts | None = None
) -> SplineTask | None:
    """The spline to be fitted on one transform's scale, or None where all x are equal."""
    low, high = _limits(transform.name, histogram, recipe)
    locations = np.clip(histogram.locations, low, high)
    x = transform.from_log_odds(locations) if histogram.kind == "probability" else locations
    if x[0] == x[-1]:
        return None
    deff, steepest = recipe.design_effect, NEARLY_FLAT if histogram.kind == "probability" else 0.0
    bins = Counts(x, histogram.positives / deff, histogram.negatives / deff)
    n1, n0, rate = float(histogram.positives.sum()), float(histogram.negatives.sum()), bins.base_rate
    brier, ridge = recipe.loss == "brier", recipe.penalty == "ridge"
    # The curve starts from a line: that which changes nothing, or next to it. Only if there is one is it worth
    # averaging over how far the line may move.
    unchanged = (0.0, 0.0) if ridge else transform.unchanged
    if brier and not ridge:
        inside = not transform.takes_probabilities and x[0] >= 0.0 and x[-1] <= 1.0
        unchanged = (0.0, 1.0) if inside else (rate, 0.0)
    spreads = FIXED_SPREAD if unchanged is None else SPREADS
    shape = Shape(
        loss=brier_loss if brier else log_loss,
        ridge=ridge,
        line=unchanged or (float(np.log(rate / (1.0 - rate))), 0.0),
        # Platt's targets of negatives and positives, of rows as they are: with few effective ones, they would move all
        # probabilities to the middle.
        targets=(0.0, 1.0) if brier or ridge else (1.0 / (n0 + 2.0), (n1 + 1.0) / (n1 + 2.0)),
        monotone=False if recipe.monotone == "auto" and ridge else recipe.monotone,
        bounds=_clip(recipe, histogram.total / deff) if brier else None,
        spreads=spreads if recipe.by_evidence and not (brier or ridge) else None,
        ends=(  # the steepest that the curve may be beyond limits that scores were moved to
            steepest if histogram.locations[0] < low else np.inf,
            steepest if histogram.locations[-1] > high else np.inf,
        ),
    )
    parts = None if parts is None else Parts(parts.positives / deff, parts.negatives / deff)
    return SplineTask(bins, _knots(transform, bins, recipe), shape, parts)


def _limits(transform: str, histogram: ScoreHistogram, recipe: Recipe) -> tuple[float, float]:
    """Lowest and highest location that count. They are knots: with others, scores count as they are."""
    quantile = isinstance(recipe.knots, str) and recipe.knots == "quantile" and recipe.penalty != "ridge"
    if quantile and histogram.kind == "margin":
        return margin_limits(histogram)
    if not quantile or transform not in ("logit", "asinh_logit"):
        return -np.inf, np.inf
    low, high = atom_limits(histogram, recipe.design_effect)
    return (max(low, -LOGIT_CLIP), min(high, LOGIT_CLIP)) if transform == "logit" else (low, high)


def atom_limits(histogram: ScoreHistogram, design_effect: float = 1.0) -> tuple[float, float]:
    """Log-odds at which exact 0 and 1 count, between which all other scores are; infinite where there are none.

    An exact 1 is put at a half to a quarter of the nearest other score's distance to 1. Within that range it is as
    certain as its ``k`` rows would make it without an exception, ``(k + 1) / (k + 2)`` by the rule of succession. Where
    rows count for less than one, the fit can do less about rows that do not suit this place: so it is further out by as
    much, if the rows that were right and wrong allow.
    """
    u = histogram.locations
    zero, one = u <= ZERO, exactly_one(u)
    inner = u[~zero & ~one]

    def atom(where: NDArray[np.bool_], right: Array, wrong: Array, nearest: Array) -> float:
        if not where.any():
            return np.inf
        n1, n0 = float(right[where].sum()), float(wrong[where].sum())
        allowed = float(np.log(n1 + n0 + 1.0))
        if not nearest.size:
            return allowed
        rest = ATOM * expit(-nearest[0])
        near, far = np.log1p(-rest) - np.log(rest)
        farther = np.log1p(-rest[1] / design_effect) - np.log(rest[1] / design_effect)
        return float(max(np.clip(allowed, near, far), min(np.log((n1 + 1.0) / (n0 + 1.0)), farther)))

    low = atom(zero, histogram.negatives, histogram.positives, -inner[:1])
    return -low, atom(one, histogram.positives, histogram.negatives, inner[-1:])


def margin_limits(histogram: ScoreHistogram) -> tuple[float, float]:
    """Lowest and highest margin that count, some way beyond nearly all of them."""
    x, share = histogram.locations, np.cumsum(histogram.positives + histogram.negatives)
    low, high = x[np.searchsorted(share, np.array([TAIL, 1.0 - TAIL]) * share[-1])]
    if low == high:  # nearly all are equal: the distinct values decide
        low, high = np.quantile(x, [TAIL, 1.0 - TAIL])
    reach = REACH * (high - low)
    return (float(low - reach), float(high + reach)) if 0.0 < reach < np.inf else (-np.inf, np.inf)


def _knots(transform: Transform, bins: Counts, recipe: Recipe) -> Array:
    if isinstance(recipe.knots, str):
        count = default_count(float(bins.w.sum())) if recipe.n_knots is None else recipe.n_knots
        if recipe.knots == "sample":
            return sampled_knots(bins.x, count, np.random.default_rng([recipe.seed, 0]))
        return quantile_knots(bins.x, bins.w, count)
    knots = transform(check_binary_scores(recipe.knots, kind=recipe_kind(transform.name), name="knots").values)
    if np.diff(knots).min() <= MIN_KNOT_GAP * max(knots[-1] - knots[0], bins.x[-1] - bins.x[0]):
        raise ValueError("knots must be further apart than rounding on the scale of the transform")
    if knots[-1] - knots[0] > FARTHEST_KNOT * (bins.x[-1] - bins.x[0]):
        raise ValueError(f"knots must not span more than {FARTHEST_KNOT:g} times the range of the scores")
    return knots


def _clip(recipe: Recipe, total: float) -> tuple[float, float]:
    """Least and largest probability that may come out.

    The log loss needs none but for rounding. The Brier loss would let a rare class
    have probability 0; the limit is what one more row of it would give.
    """
    least = 1e-15 if recipe.loss == "log" else min(1.0 / (total + 2.0), 0.25)
    return least, 1.0 - least


def constant_fit(transform: Transform, where: float, rate: float, total: float, recipe: Recipe) -> FittedCurve:
    """The same probability everywhere, with the variance of a binomial share."""
    variance = 1.0 / (total * rate * (1.0 - rate))
    flat = line(transform, 0.0, float(np.log(rate / (1.0 - rate))) if recipe.link == "logit" else rate, origin=where)
    curve = replace(flat, link=recipe.link, clip=_clip(recipe, total))
    if recipe.link == "logit":
        powers = np.zeros((7, 3))
        powers[-1] = variance
        curve = replace(curve, variance=powers, modes=np.full((1, 2), np.sqrt(variance)))
    return FittedCurve(curve, np.inf, np.empty(0), np.empty(0), edf=1.0, converged=True, n_iter=0)
