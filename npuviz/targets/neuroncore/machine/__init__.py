"""The simulated machine: builds program and state words from the tables, and runs the kernels on them."""
