"""Stand-in for neuronxcc.nki.typing."""

from npuviz.targets.neuroncore.nki.calls.annotations import mutable, mutable_tensor, scalar, tensor
from npuviz.targets.neuroncore.nki.rules import names as _names

__all__ = ["mutable", "mutable_tensor", "scalar", "tensor"]
__getattr__ = _names.keep_public(globals(), "nki.typing", tuple(__all__), (), 1)
