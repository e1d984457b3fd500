"""Lower operators that sample between elements: resizing, grids and regions of interest."""
