"""Bytes on disk <-> plain data; knows nothing of simulation.

May import program and base (and format libraries such as onnx). A new file format gets a module of
its own, named after the format; see docs/adding-a-format.md.
"""
