"""Fitted maps from scores to probabilities, and the model that holds one."""
