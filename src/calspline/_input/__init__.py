"""Validation of user input."""
