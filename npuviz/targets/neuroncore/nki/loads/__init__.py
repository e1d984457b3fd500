"""Loads of kernels of generation 1: those that are left out, and those that are made again before use."""
