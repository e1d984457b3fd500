"""Compute on raw bits: float formats, register words, elements of DSD operations."""
