"""Access patterns of tiles and of HBM, sliced and reshaped like numpy arrays, and DMA descriptors of them."""
