"""Calibrators: scikit-learn estimators on scores."""
