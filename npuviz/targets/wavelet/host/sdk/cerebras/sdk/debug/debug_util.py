"""Reading what a run left."""

from npuviz.targets.wavelet.host.debug_util import debug_util

__all__ = ["debug_util"]
