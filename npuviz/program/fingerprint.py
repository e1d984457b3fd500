"""Digests of everything that decides a run, made of text and arrays in a fixed order."""

import hashlib
from collections.abc import Mapping

import numpy as np

from npuviz.program.graph import Graph


class Fingerprint:
    """Collects what decides a run. spec_text stands for the machine."""

    def __init__(self, spec_text: str) -> None:
        self._digest = hashlib.blake2b(spec_text.encode(), digest_size=16)

    def text(self, text: str) -> None:
        """Add text."""
        self._digest.update(text.encode())

    def array(self, values: np.ndarray) -> None:
        """Add an array; one repeated value, which takes no memory, takes none here."""
        if values.size and not any(values.strides):
            self._digest.update(repr(values.shape).encode() + values.reshape(-1)[:1].tobytes())
        elif values.dtype.hasobject:
            self._digest.update(repr(values.tolist()).encode())
        else:
            self._digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)

    def inputs(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Add named arrays."""
        for name in sorted(inputs):
            self.text(name)
            self.array(inputs[name])

    def nodes(self, graph: Graph) -> None:
        """Add what a graph's nodes are and how they are connected."""
        self.text(repr([(node.op_type, node.inputs, node.outputs) for node in graph.nodes]))

    def hexdigest(self) -> str:
        """The digest of everything added."""
        return self._digest.hexdigest()
