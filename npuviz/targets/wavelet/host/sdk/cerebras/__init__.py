"""Names that host programs import; the implementation is npuviz.targets.wavelet.host."""
