"""The search panel: finds a text in everything that a run consists of."""
