"""Stand-in for nki, generation 2."""

from numpy import dtype

from nki import collectives, isa, language, typing
from npuviz.targets.neuroncore.nki.calls.entry_points import jit_second as jit
from npuviz.targets.neuroncore.nki.calls.entry_points import simulate
from npuviz.targets.neuroncore.nki.record.tensors import Tensor as tensor
from npuviz.targets.neuroncore.nki.rules import names as _names

__all__ = ["collectives", "dtype", "isa", "jit", "language", "simulate", "tensor", "typing"]
__getattr__ = _names.keep_public(globals(), "nki", tuple(__all__), _names.ENTRIES_FIRST, 2)
