"""Explains what the cycles of a run were spent on, and what would make it faster."""
