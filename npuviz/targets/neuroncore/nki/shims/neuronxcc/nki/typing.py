"""Stand-in for neuronxcc.nki.typing."""

from npuviz.targets.neuroncore.nki.calls.annotations import mutable, mutable_tensor, scalar, tensor

__all__ = ["mutable", "mutable_tensor", "scalar", "tensor"]
