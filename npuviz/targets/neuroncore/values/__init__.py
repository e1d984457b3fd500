"""Compute values: the contents of all memories after any prefix of the log of completions."""
