"""Compile ONNX graphs to RK3588 tasks: one file per operator family, register words at the end.

A new operator: write its lowering in its family and add it to the family's table.
"""
