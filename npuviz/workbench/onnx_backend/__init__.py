"""Models as a standard ONNX backend runs them, and onnx's own suite on a simulated machine."""
