"""What ONNX operators mean, said once for every compiler: attributes with their defaults, windows, axes."""
