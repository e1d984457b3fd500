"""Stand-in for the vendor's package: kernels run on the machine of npuviz."""
