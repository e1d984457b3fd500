"""Cut convolutions into tasks: rows, kernels, and several places at once."""
