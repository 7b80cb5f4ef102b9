"""Evaluation of probabilities. Nothing here depends on an estimator."""
