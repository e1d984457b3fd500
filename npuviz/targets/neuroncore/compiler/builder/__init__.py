"""The program builder of the lowerings: tiles, DMA movements and computing instructions."""
