"""ONNX for every compiler: reading, shapes, passes, reference execution. May import formats, sim, program and base; `import onnx` is the library."""
