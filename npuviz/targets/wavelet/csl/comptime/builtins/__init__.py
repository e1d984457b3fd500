"""Evaluate the builtins that have a meaning at compile time, by subject."""
