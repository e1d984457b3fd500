"""Places and areas."""

from npuviz.targets.wavelet.host.layout.regions import IntRectangle, IntVector

__all__ = ["IntRectangle", "IntVector"]
