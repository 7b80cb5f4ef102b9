"""Hostile files for every reader: only our errors may come out."""
