"""Numerics of penalized splines: arrays in, arrays out."""
