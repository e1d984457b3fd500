"""Decode what one task does and costs, from its registers alone."""
