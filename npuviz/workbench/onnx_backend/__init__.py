"""Runs models through the standard ONNX backend interface, and onnx's backend test on a simulated machine."""
