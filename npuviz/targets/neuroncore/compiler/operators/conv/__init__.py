"""Lower convolutions, also transposed and deformable ones."""
