"""From an ONNX model or one of ONNXim's list files to a compiled program, in true or parity mode."""
