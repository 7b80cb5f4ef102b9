"""Defaults on real model outputs, against frozen results of other methods."""
