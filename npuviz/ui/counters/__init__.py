"""Counters of a run as a table: the value now, and lowest, mean and highest so far."""
