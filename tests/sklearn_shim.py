"""A pytest plugin: scikit-learn's own tests of calibration meet our class, with their defaults."""

import sklearn.calibration

from calspline import CalibratedClassifierCV


class WithTheirDefaults(CalibratedClassifierCV):
    def __init__(
        self,
        estimator=None,
        *,
        method="sigmoid",
        cv=None,
        n_jobs=None,
        ensemble="auto",
        verbose=0,
    ):
        super().__init__(
            estimator,
            method=method,
            cv=cv,
            n_jobs=n_jobs,
            ensemble=ensemble,
            verbose=verbose,
        )


def pytest_configure():
    """Put our class in the place of theirs; only as a plugin, for whoever merely imports this file needs theirs."""
    sklearn.calibration.CalibratedClassifierCV = WithTheirDefaults
