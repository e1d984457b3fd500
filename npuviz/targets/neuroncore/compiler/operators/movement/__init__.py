"""Operators that only move or make elements, with known indices and with those of the run."""
