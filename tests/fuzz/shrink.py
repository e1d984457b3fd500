"""Making an input smaller while it shows the same fault."""

import time
from collections.abc import Callable


def shrink(data: bytes, shows_it: Callable[[bytes], bool], seconds: float) -> bytes:
    """Leave out lines, then bytes, in pieces that become smaller; ends after so long."""
    end = time.monotonic() + seconds
    lines = data.splitlines(keepends=True)
    if len(lines) > 2:
        data = b"".join(_without(lines, lambda left: shows_it(b"".join(left)), end))
    found = _without(
        [data[at : at + 1] for at in range(len(data))], lambda left: shows_it(b"".join(left)), end
    )
    return b"".join(found)


def _without(pieces: list[bytes], is_enough: Callable[[list[bytes]], bool], end: float) -> list[bytes]:
    size = max(len(pieces) // 2, 1)
    while True:
        at = 0
        while at < len(pieces):
            if time.monotonic() > end:
                return pieces
            left = pieces[:at] + pieces[at + size :]
            if left and is_enough(left):
                pieces = left
            else:
                at += size
        if size == 1:
            return pieces
        size //= 2
