"""Comparing what a machine computed with ONNX Runtime: references, rules for errors, and the verdict."""
