"""Places and areas."""

from npuviz.targets.wavelet.host.geometry import IntRectangle, IntVector

__all__ = ["IntRectangle", "IntVector"]
