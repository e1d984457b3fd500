"""Stand-in for a part of the vendor's package that has no public documentation."""

raise ImportError(
    "neuronxcc.nki._private_kernels is not in the public documentation: npuviz does not know what it does"
)
