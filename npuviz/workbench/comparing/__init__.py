"""Compares two runs by cause, operator, line and unit, and lists the runs that an open one can be compared
with."""
