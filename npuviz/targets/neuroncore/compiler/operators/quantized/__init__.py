"""Quantisation, and products of quantised integers."""
