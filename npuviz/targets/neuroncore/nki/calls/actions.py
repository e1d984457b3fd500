"""What Python's syntax on tensors means: subscripts, operators, conversions."""

from npuviz.targets.neuroncore.nki.calls import elementwise
from npuviz.targets.neuroncore.nki.calls.language import broadcast_to
from npuviz.targets.neuroncore.nki.calls.movement import tensor_copy
from npuviz.targets.neuroncore.nki.record import views as views  # gives tensors more of them
from npuviz.targets.neuroncore.nki.record.guarding import guard_methods
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.subscripts import subscripted
from npuviz.targets.neuroncore.nki.record.tensors import Tensor


class PythonActions:
    """`tensors.Actions` of the kernel that runs."""

    def subscripted(self, tensor: Tensor, key: object) -> Tensor:
        """The view that a subscript names."""
        return subscripted(tensor, key)

    def binary(self, op: str, a: object, b: object, dtype: object = None) -> Tensor:
        """A new tile: a op b."""
        return elementwise.binary(current(), op, a, b, dtype)

    def binary_into(self, target: Tensor, op: str, a: object, b: object) -> None:
        """target = a op b."""
        elementwise.binary_into(current(), target, op, a, b)

    def copied(self, tensor: Tensor, dtype: object) -> Tensor:
        """A copy of another type."""
        return tensor_copy(None, tensor, dtype=dtype)

    def broadcast(self, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The tensor repeated to a shape, over partitions too."""
        return broadcast_to(tensor, shape=shape)


ACTIONS = PythonActions()
guard_methods()
