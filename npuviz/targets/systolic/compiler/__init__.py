"""The systolic compiler: operator graph in, program tables out.

May import program, formats and the other modules of the target. `parity` follows ONNXim to the
letter; a new operator family gets a file of its own in the mode's package.
"""
