"""The parity compiler: the tile programs that ONNXim makes, its flaws included.

Ref: systolic.md sections 7 and 10 to 14. May import the compiler's shared modules (builder,
template, merging), program and formats. An operator family that ONNXim knows gets a module of its own here.
"""
