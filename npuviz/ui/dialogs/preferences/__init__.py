"""Preferences: everything that can be chosen on one page, with search."""
