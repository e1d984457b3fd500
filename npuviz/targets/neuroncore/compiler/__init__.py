"""Compile ONNX graphs to NeuronCore programs: a file for each operator family, which all use one builder.

A new operator: write `lower_<name>(b, node)` in its family and add it to the family's table.
"""
