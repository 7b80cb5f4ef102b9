"""A pytest plugin: scikit-learn's own tests of calibration meet our class, with their defaults."""

import sklearn.calibration

from calspline import CalibratedClassifierCV


class WithTheirDefaults(CalibratedClassifierCV):
    def __init__(self, estimator=None, *, method="sigmoid", cv=None, n_jobs=None, ensemble="auto", verbose=0):
        super().__init__(estimator, method=method, cv=cv, n_jobs=n_jobs, ensemble=ensemble, verbose=verbose)


sklearn.calibration.CalibratedClassifierCV = WithTheirDefaults
