"""Convolutions: inputs and weights on chip, loops over blocks, transposed and deformable ones."""
