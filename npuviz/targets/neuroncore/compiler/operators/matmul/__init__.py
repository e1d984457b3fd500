"""Lower matrix products to PE: blocks, operands on chip, and epilogues on the sums."""
