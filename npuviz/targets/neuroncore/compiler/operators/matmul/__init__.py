"""Matrix products on PE: operands on chip, blocks, and what happens to sums on their way out."""
