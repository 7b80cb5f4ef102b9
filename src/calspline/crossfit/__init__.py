"""Honest scores for a model's own training rows: each from a model that has not seen the row."""
