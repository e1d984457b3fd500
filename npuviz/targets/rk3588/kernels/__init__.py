"""Simulate the machine cycle by cycle: records, cores and the DDR bus; `advance` is what Python calls."""
