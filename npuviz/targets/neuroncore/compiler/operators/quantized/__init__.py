"""Lower quantisation, and products of quantised integers."""
