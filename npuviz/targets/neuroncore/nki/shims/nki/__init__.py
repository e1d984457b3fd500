"""Stand-in for nki, generation 2."""

import numpy as np

from nki import collectives, isa, language, typing
from npuviz.targets.neuroncore.nki.calls.entry_points import jit_second as jit
from npuviz.targets.neuroncore.nki.calls.entry_points import simulate
from npuviz.targets.neuroncore.nki.record.tensors import Tensor as tensor

dtype = np.dtype

__all__ = ["collectives", "dtype", "isa", "jit", "language", "simulate", "tensor", "typing"]
