"""What a calibrator has from scikit-learn, and the little that it needs where it is nobody's estimator.

Importing scikit-learn takes several times as long as all else that ``calspline apply`` does. The process of a command
hands its calibrators to nobody, so they need not be estimators there: :func:`do_without_sklearn` says so, before the
first of them is imported. Everywhere else they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from calspline.options import Domain

_without_sklearn = False


def do_without_sklearn() -> None:
    """Have calibrators that are imported from now on be no estimators of scikit-learn."""
    global _without_sklearn
    _without_sklearn = True


def estimator_bases() -> tuple[type[Any], ...]:
    """What a calibrator derives from."""
    if _without_sklearn:
        return (PlainEstimator,)
    from sklearn.base import BaseEstimator, ClassifierMixin

    return ClassifierMixin, BaseEstimator


class PlainEstimator:
    """Options as scikit-learn's estimators have them."""

    _parameter_constraints: ClassVar[dict[str, Domain]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options of the constructor."""
        return {name: getattr(self, name) for name in sorted(self._parameter_constraints)}

    def __repr__(self) -> str:
        usual = type(self)().get_params()
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value != usual[name]]
        return f"{type(self).__name__}({', '.join(changed)})"


def warn_not_converged() -> None:
    """Warn, in scikit-learn's category, that a fit did not converge."""
    from sklearn.exceptions import ConvergenceWarning

    from calspline.labels import warn_user

    warn_user("the fit did not converge", ConvergenceWarning)
