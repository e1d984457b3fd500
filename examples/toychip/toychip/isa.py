"""Instructions, units and memories."""

SEQ, LD, ALU, ST = range(4)
"""Units. SEQ hands instructions to the queues of the others, in the order of the program."""
UNITS = ("SEQ", "LD", "ALU", "ST")
DRAM, SPAD = range(2)
LOAD, MUL, ADD, STORE, WAIT = range(5)
"""Kinds of intervals: the instructions, and waiting for what an instruction depends on."""
OPCODES = ("LOAD", "MUL", "ADD", "STORE")
