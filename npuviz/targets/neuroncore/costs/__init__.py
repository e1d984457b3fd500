"""Compute how long instructions and Host calls take, each figure with its source."""
