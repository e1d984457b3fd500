"""Stand-in for nki, generation 2."""

from nki import isa, language, typing
from npuviz.targets.neuroncore.nki.calls.entry_points import jit_second as jit
from npuviz.targets.neuroncore.nki.calls.entry_points import simulate
from npuviz.targets.neuroncore.nki.record.tensors import Tensor as tensor

__all__ = ["isa", "jit", "language", "simulate", "tensor", "typing"]
