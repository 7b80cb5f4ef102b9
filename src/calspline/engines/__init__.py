"""Calibration where the scores live: data frames and engines of any kind, through narwhals."""
