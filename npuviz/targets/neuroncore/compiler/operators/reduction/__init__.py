"""Operators that reduce or search along axes."""
