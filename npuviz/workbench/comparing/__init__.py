"""Puts two runs side by side: what was won and lost, and with which runs one can be compared."""
