"""Kernels that Python calls: uncompiled at once, compiled as soon as another process has done that."""
