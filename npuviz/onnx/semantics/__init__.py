"""Semantics of ONNX operators for all compilers: attributes with their defaults, windows, axes."""
