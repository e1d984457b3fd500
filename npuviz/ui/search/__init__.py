"""Search over everything that a run consists of."""
