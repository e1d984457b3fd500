"""Stand-in for neuronxcc.nki.language.constants."""

from npuviz.targets.neuroncore.nki.calls.language import constants as _constants
from npuviz.targets.neuroncore.nki.rules import names as _names

sizeinbytes = _constants.sizeinbytes
__all__ = ["sizeinbytes"]
__getattr__ = _names.keep_public(globals(), "nl.constants", tuple(__all__), (), 1)
