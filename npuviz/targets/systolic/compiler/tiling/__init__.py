"""Tilings of true mode: resources of a tile, order of the array's instructions, ranking of tile sizes."""
