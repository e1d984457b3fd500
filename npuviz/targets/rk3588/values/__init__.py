"""Compute what tasks do: DDR after any prefix of the log, one file per unit of the core."""
