"""Lower the functions of PEs to instructions, memory and tables."""
