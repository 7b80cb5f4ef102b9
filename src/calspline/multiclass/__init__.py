"""Numerics of structured multiclass calibration: arrays in, arrays out."""
