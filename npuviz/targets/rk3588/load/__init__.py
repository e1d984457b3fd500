"""Register command dumps and .rknn files as programs."""
