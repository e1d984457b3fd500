"""Reductions over the turns of loops."""

from npuviz.targets.neuroncore.nki.record.names import name_of
from npuviz.targets.neuroncore.nki.record.tensors import Recorder, Tensor


class LoopSum:
    """The result of nl.loop_reduce: it stays in the tile that it is assigned to over the loop."""

    def __init__(self, recording: Recorder, value: Tensor, op: object, is_first: bool) -> None:
        self._recording = recording
        self._value = value
        self._op = op
        self._is_first = is_first
        self.shape, self.dtype = value.shape, value.dtype

    def __repr__(self) -> str:
        return "the result of nl.loop_reduce, which a part of a tile takes over (total[...] = ...)"

    def store(self, target: Tensor) -> None:
        """`t[...] = nl.loop_reduce(...)`."""
        if self._is_first:
            self._recording.assign(target, self._value)
        else:
            self._recording.actions.binary_into(target, name_of(self._op), target, self._value)
