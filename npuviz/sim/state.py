"""Define snapshots: copies of a machine's whole state."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of everything that changes between cycles.

    cycle   base-clock cycle at which it was taken
    words   the root state record as int64 words, owned by the snapshot, never changed
    image   copy-on-write view of large memories (target's own type, immutable), or None
    """

    cycle: int
    words: np.ndarray
    image: Any = None

    @property
    def size_bytes(self) -> int:
        """Bytes of memory that the snapshot holds, shared pages not counted."""
        return int(self.words.nbytes)
