"""From the functions of one PE to instructions, memory and tables."""
