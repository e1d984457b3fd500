"""Export places and areas under the vendor's names."""

from npuviz.targets.wavelet.host.layout.regions import IntRectangle, IntVector

__all__ = ["IntRectangle", "IntVector"]
