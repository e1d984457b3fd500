"""Run DSD operations: start one from its instruction, move its operands and FIFOs, take steps of a few
elements."""
