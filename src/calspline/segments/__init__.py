"""Segments that differ: their labels, their histograms, and the curve of each."""
