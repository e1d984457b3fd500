"""Decide who works in which cycle: the time wheel, seats, wakes with faults and the log, stop rows."""
