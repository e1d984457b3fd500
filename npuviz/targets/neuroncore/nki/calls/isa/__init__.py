"""`nki.isa` as kernels of each generation call it."""
