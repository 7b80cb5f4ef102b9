"""Fits: checked rows or histograms in, a model out."""
