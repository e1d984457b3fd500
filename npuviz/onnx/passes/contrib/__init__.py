"""Operators of language models that ONNX Runtime has beside the standard, written with its operators."""
