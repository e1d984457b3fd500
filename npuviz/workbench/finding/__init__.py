"""Finds places, names and texts in what is open."""
