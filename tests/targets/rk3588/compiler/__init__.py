"""Models through the RK3588 compiler, on the machine, against ONNX Runtime."""
