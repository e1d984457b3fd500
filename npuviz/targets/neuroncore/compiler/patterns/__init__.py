"""Access patterns of tiles and of HBM, sliced and reshaped as numpy arrays are, down to DMA descriptors."""
