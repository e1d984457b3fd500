"""Simulate DRAM for several machines, by request and by command; its words are part of a machine's state."""
