"""Simulate networks on chip for several machines, by packet and by flit;
their words are part of a machine's state."""
