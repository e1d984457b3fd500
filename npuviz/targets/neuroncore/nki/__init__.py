"""NKI kernels: recorded by running their Python, lowered to the engines."""
