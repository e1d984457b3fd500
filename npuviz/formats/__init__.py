"""Bytes on disk <-> plain data; knows nothing of simulation.

May import program and base. A new file format gets a module or a folder of its own, named after it; see
docs/adding-a-format.md.
"""
