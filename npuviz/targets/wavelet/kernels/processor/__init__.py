"""Simulate the processor of a node: the choice of the next thread, tasks, the scalar pipeline, system
calls."""
