"""Arrays of `--input NAME=FILE.npy`."""

import io
from pathlib import Path
from random import Random

import numpy as np

from npuviz.workbench.arguments import parse_inputs
from tests.fuzz.mutations import change_bytes, change_text

SUFFIX = ".npy"
SHARE = 100


def seeds() -> list[bytes]:
    """Arrays of several types and both orders, and one of each other kind that numpy writes."""
    found: list[bytes] = []
    arrays = (
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.int64).reshape(3, 2)),
        np.array(3, np.uint8),
        np.zeros((0, 4), np.float16),
        np.zeros(2, [("a", np.int32), ("b", np.float64)]),
        np.array(["text"]),
    )
    for array in arrays:
        stream = io.BytesIO()
        np.save(stream, array)
        found.append(stream.getvalue())
    stream = io.BytesIO()
    np.savez(stream, a=arrays[0])
    return [*found, stream.getvalue()]


def mutate(data: bytes, rng: Random) -> bytes:
    """Change the header's text, or bytes anywhere."""
    end = data.find(b"\n")
    if rng.random() < 0.5 or end < 10:
        return change_bytes(data, rng)
    header = change_text(data[10:end].decode("latin1"), rng).encode("latin1", errors="replace")
    size = len(header) + 1 if rng.random() < 0.8 else rng.randrange(1 << 16)
    return data[:8] + (size % (1 << 16)).to_bytes(2, "little") + header + data[end:]


def attempt(path: Path) -> object:
    """Read it as the command line does."""
    return parse_inputs([f"x={path}"])
