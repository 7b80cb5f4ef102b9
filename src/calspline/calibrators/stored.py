"""A fitted calibrator in plain values, as a file has it, and back."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from calspline.calibrators import estimator_bases
from calspline.calibrators.shift import REFERENCE, SHIFT, Reference, Shift
from calspline.curve import CURVE, CalibrationCurve
from calspline.options import (
    BOOLEAN,
    CLASS_LABELS,
    NULL,
    Choice,
    Domain,
    ListOf,
    Number,
    Record,
    check_fitted,
    optional,
    plain_classes,
)

PROBES = {
    "probability": np.array([0.0, 1e-300, 1e-9, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0 - 1e-9, 1.0]),
    "margin": np.array([-1e300, -1e9, -10.0, -1.0, 0.0, 1e-9, 1.0, 10.0, 1e9, 1e300]),
}
"""Scores that any calibrator read from a file has to make probabilities of, but for rounding (``PROPER``)."""
PROPER = 1e-6


class StoredCalibrator(*estimator_bases()):  # type: ignore[misc]
    """What a calibrator declares: its options and what a file has to know of a fit, each with its domain.

    The checks, and the JSON schema of saved models, follow from that.
    """

    _parameter_constraints: ClassVar[dict[str, Domain]] = {}
    """Options of the constructor."""
    _parameters_since: ClassVar[dict[str, Any]] = {}
    """Those that files of earlier versions do not know, and what they stand for there."""
    _stored: ClassVar[dict[str, Domain]] = {}
    """What a file has to know besides the curves: ``{"p_min": ...}`` is the fitted attribute ``p_min_``."""
    _stored_since: ClassVar[dict[str, Any]] = {}
    """Values of what files of earlier versions do not know."""
    _stores_curves: ClassVar[bool] = True
    _structure_record: ClassVar[Record | None] = None
    """The map of all classes at once, of a method that has one."""

    @classmethod
    def record(cls) -> Record:
        """What :meth:`to_dict` gives and :meth:`from_dict` takes, as a domain."""
        name = cls.__name__
        fitted = {"kind": Choice("probability", "margin"), "difference": BOOLEAN} | cls._stored
        fitted |= {"inside": optional(Number(above=0.0, below=1.0))}
        fitted |= {"reference": optional(REFERENCE), "shift": optional(SHIFT)}
        since = cls._stored_since | {"inside": None, "reference": None, "shift": None}
        return Record(
            name,
            {
                "class": Choice(name),
                "parameters": Record(f"{name}.parameters", cls._parameter_constraints, cls._parameters_since),
                "classes": CLASS_LABELS,
                "fitted": Record(f"{name}.fitted", fitted, since),
                "curves": ListOf(CURVE, most=None if cls._stores_curves else 0),
                "structure": NULL if cls._structure_record is None else optional(cls._structure_record),
            },
        )

    def to_dict(self) -> dict[str, Any]:
        """The fitted calibrator in plain JSON values."""
        check_fitted(self)
        params = self.get_params(deep=False)
        for name, value in self._parameters_since.items():
            if params[name] == value:  # earlier versions can read it then
                del params[name]
        facts: dict[str, Any] = {"kind": self.kind_, "difference": self.difference_}
        facts |= ({} if self._inside is None else {"inside": self._inside}) | self._facts()
        for record, known in ((REFERENCE, self.reference_), (SHIFT, self.shift_)):
            facts |= {} if known is None else {record.title: record.described(known)}
        return {
            "class": type(self).__name__,
            "parameters": {name: _plain(value) for name, value in params.items()},
            "classes": plain_classes(self.classes_),
            "fitted": facts,
            "curves": [curve.to_dict() for curve in self.curves_],
            "structure": self._structure(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The calibrator that :meth:`to_dict` described; anything else is an error."""
        fields = cls.record().fields
        names, given = sorted(cls._parameter_constraints), data["parameters"]
        if not isinstance(given, dict) or sorted(cls._parameters_since | given) != names:
            raise ValueError(f"parameters must be exactly {', '.join(names) or 'none'}")
        calibrator = cls(**{key: np.inf if value == "infinity" else value for key, value in given.items()})
        calibrator.recipe()
        classes = fields["classes"].check(data["classes"], "classes")
        facts = fields["fitted"].check(data["fitted"], "fitted")
        if not isinstance(data["curves"], list):
            raise ValueError("curves must be a list")
        if data["curves"] and not cls._stores_curves:
            raise ValueError(f"curves must be empty for {cls.__name__}")
        if data["structure"] is not None and cls._structure_record is None:
            raise ValueError(f"structure must be null for {cls.__name__}")
        with np.errstate(all="ignore"):
            curves = [CalibrationCurve.from_dict(curve) for curve in data["curves"]]
            calibrator._restore(facts, curves, data["structure"], len(classes))
        takes = [curve.transform.takes_probabilities for curve in calibrator.curves_]
        of_scores = len(takes) == (1 if len(classes) == 2 else len(classes))  # not of what becomes of logits
        if facts["kind"] == "margin" and of_scores and any(takes):
            raise ValueError("kind must be probability for the transform of the curves")
        reference, shift = facts["reference"], facts["shift"]
        reference = None if reference is None else Reference.from_dict(reference, len(classes))
        calibrator._remember(classes, facts["kind"], facts["inside"], reference, difference=facts["difference"])
        calibrator.shift_ = None if shift is None else Shift.from_dict(shift, len(classes))
        calibrator._check_that_it_works()
        return calibrator

    def _facts(self) -> dict[str, Any]:
        """What a file has to know besides the curves, as JSON values."""
        return {name: getattr(self, f"{name}_") for name in self._stored}

    def _structure(self) -> dict[str, Any] | None:
        """The map of all classes, if there is one, as JSON values."""
        return None

    def _restore(self, facts: dict[str, Any], curves: list[CalibrationCurve], structure: Any, n_classes: int) -> None:
        """Set fitted attributes from what a file says; what makes no sense is an error."""
        for name in self._stored:
            setattr(self, f"{name}_", facts[name])
        self.curves_ = curves

    def _check_that_it_works(self) -> None:
        """Refuse numbers so large or so small that no probabilities come of them."""
        m = len(self.classes_)
        extremes = PROBES[self.kind_]
        rows = extremes if m == 2 else np.array([np.full(m, 1.0 / m), np.eye(1, m)[0], np.eye(1, m, m - 1)[0]])
        if m > 2 and self.kind_ == "margin":
            rows = np.outer(extremes, np.linspace(-1.0, 1.0, m))
        with np.errstate(all="ignore"):
            p = self.predict_proba(rows)
        if not (np.isfinite(p).all() and p.min() >= 0.0 and np.abs(p.sum(axis=1) - 1.0).max() < PROPER):
            raise ValueError("its numbers give no probabilities")


def _plain(value: Any) -> Any:
    """An option as a JSON value; a RandomState has none, and becomes null."""
    if isinstance(value, np.random.RandomState):
        return None
    array = np.asarray(value)
    plain = array.astype(np.float64).tolist() if array.ndim else array.tolist()
    return "infinity" if plain == np.inf else plain  # JSON has no number for it
