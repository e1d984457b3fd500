"""Samples between elements: resizing, grids and regions of interest."""
