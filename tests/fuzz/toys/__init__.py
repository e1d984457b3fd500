"""Families that fail in every way, to see that the harness notices."""
