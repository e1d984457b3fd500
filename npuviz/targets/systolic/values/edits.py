"""A write to DRAM in the middle of a run: what was stored before it stays, what follows sees it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from npuviz.targets.systolic.values.engine import ValueEngine


@dataclass
class WriteEvent:
    """Bytes of a root tensor changed when the tiles and layers given were done.

    engine  the engine before the write
    """

    engine: "ValueEngine"
    root: int
    offset: int
    data: bytes
    tile_done: np.ndarray
    layer_done: np.ndarray
    _seen: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])

    def is_layer_frozen(self, layer: int) -> bool:
        """Whether the layer's results were complete before the write."""
        return bool(self.layer_done[layer])

    def contents(self, root: int) -> np.ndarray:
        """Contents of a root tensor right after the write (flat, DRAM order); the caller may change it."""
        found = self._seen.get(root)
        if found is None:
            found = np.array(self.engine.tensor_stored(root, self.tile_done, self.layer_done))
            if root == self.root:
                raw = found.view(np.uint8)
                raw[self.offset : self.offset + len(self.data)] = np.frombuffer(self.data, np.uint8)
            found.setflags(write=False)
            self._seen[root] = found
        return found.copy()

    def digest_bytes(self) -> bytes:
        """What tells this write from any other."""
        head = f"{self.engine.digest()} {self.root} {self.offset}".encode()
        return b"\0".join((head, self.data, self.tile_done.tobytes(), self.layer_done.tobytes()))
