"""Read register command dumps and .rknn files as programs."""
