"""Simulate a wafer in compiled code: the main loop over the words of the state, and the parts it is built
of."""
