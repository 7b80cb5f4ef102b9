"""Fits of nasty data: does every one converge, stay finite, and do no harm."""
