"""Random ONNX graphs, made from seeds, run and judged on every target that compiles ONNX."""
