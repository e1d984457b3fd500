"""Checks of what the hardware leaves to the programmer, for every machine: memory and order, values."""
