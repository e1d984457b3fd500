"""Words and tools that every layer uses.

Imports nothing of npuviz. Add a thing here only when two layers need it.
"""
