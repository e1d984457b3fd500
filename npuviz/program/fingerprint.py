"""Compute digests of everything that decides a run, from text and arrays in a fixed order."""

import hashlib
from collections.abc import Mapping

import numpy as np

from npuviz.program.graph import Graph


class Fingerprint:
    """Collects what decides a run. spec_text  the machine's spec as text"""

    def __init__(self, spec_text: str) -> None:
        self._digest = hashlib.blake2b(spec_text.encode(), digest_size=16)

    def text(self, text: str) -> None:
        """Add text."""
        self._digest.update(text.encode())

    def array(self, values: np.ndarray) -> None:
        """Add an array; of an array that repeats one value with zero strides,
        only shape and value are read."""
        if values.size and not any(values.strides):
            self._digest.update(repr(values.shape).encode() + values.reshape(-1)[:1].tobytes())
        elif values.dtype.hasobject:
            self._digest.update(repr(values.tolist()).encode())
        else:
            self._digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)

    def inputs(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Add named arrays, sorted by name."""
        for name in sorted(inputs):
            self.text(name)
            self.array(inputs[name])

    def nodes(self, graph: Graph) -> None:
        """Add the operator types, inputs and outputs of a graph's nodes."""
        self.text(repr([(node.op_type, node.inputs, node.outputs) for node in graph.nodes]))

    def hexdigest(self) -> str:
        """Return the digest of everything added."""
        return self._digest.hexdigest()
