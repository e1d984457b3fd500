"""ONNX for every compiler: reading, passes, shapes, reference execution.

May import formats, sim, program and base; `import onnx` is the library.
"""
