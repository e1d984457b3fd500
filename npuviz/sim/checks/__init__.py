"""Check what the hardware leaves to the programmer, for every machine: bounds, order of accesses, values."""
