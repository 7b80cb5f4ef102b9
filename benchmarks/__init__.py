"""Benchmarks of calspline; each runs as a module from the root of the repository."""
