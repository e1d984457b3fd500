"""Export the reader of what a run left under the vendor's name."""

from npuviz.targets.wavelet.host.debug_util import debug_util

__all__ = ["debug_util"]
