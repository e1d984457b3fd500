"""Write instructions as text, one a line, with the names of opcodes, operators and types."""
