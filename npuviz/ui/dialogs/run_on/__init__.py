"""Choosing what a model runs on: machine, preset, dimensions and settings, and what that costs."""
