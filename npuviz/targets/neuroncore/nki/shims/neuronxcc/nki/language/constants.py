"""Stand-in for neuronxcc.nki.language.constants."""

from npuviz.targets.neuroncore.nki.calls.language import constants as _constants

sizeinbytes = _constants.sizeinbytes
__all__ = ["sizeinbytes"]
