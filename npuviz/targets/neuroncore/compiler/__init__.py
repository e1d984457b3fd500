"""ONNX graphs become NeuronCore programs: one file per operator family over one builder.

A new operator: write `lower_<name>(b, node)` in its family and add it to the family's table.
"""
