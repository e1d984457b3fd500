"""Stand-in for neuronxcc.nki.isa."""

from npuviz.targets.neuroncore.nki.calls.isa.first import *  # noqa: F403
from npuviz.targets.neuroncore.nki.record.guarding import guard as _guard
from npuviz.targets.neuroncore.nki.rules import names as _names

__getattr__ = _names.keep_public(globals(), "nisa", _names.ISA + _names.ISA_FIRST, _names.ISA_SECOND, 1)
_guard(globals(), "nisa")
