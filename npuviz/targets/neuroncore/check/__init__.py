"""Computed tensors against the reference, and the first instruction that went wrong."""
