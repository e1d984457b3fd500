"""Reads from an ONNX file how a language model is stepped from token to token."""
