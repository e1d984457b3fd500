"""Compares the tensors of a machine with ONNX Runtime: references, tolerances, and the verdict."""
