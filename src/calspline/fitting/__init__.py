"""Numerics of penalised splines: arrays in, arrays out."""
