"""Instruction streams under construction: what waits for what, in which order, behind which semaphore."""
