"""DSD operations: from the instruction over operands and FIFOs to the steps of a few elements."""
