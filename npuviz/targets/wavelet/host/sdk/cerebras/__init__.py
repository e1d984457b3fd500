"""Hold names that host programs import; npuviz.targets.wavelet.host implements them."""
