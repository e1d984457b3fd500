"""One letter of the input says what goes wrong."""

import os
import signal
import time
from pathlib import Path
from random import Random

import numpy as np

from npuviz.base.errors import Cancelled, FormatError, SimulationError


class _TwoLines(FormatError):
    def __str__(self) -> str:
        return "one\ntwo"


SUFFIX = ".txt"
SHARE = 20


def seeds() -> list[bytes]:
    """A good one and a refused one; what is worse comes from `mutate`."""
    return [b"good", b"bad"]


def mutate(data: bytes, rng: Random) -> bytes:
    """Ask for a leak among lines that do not matter."""
    return b"this\nand\nthat\n" + rng.choice((b"leak", b"good", b"bad"))


def attempt(path: Path) -> object:
    """Do what the last line says."""
    word = path.read_text().rpartition("\n")[2]
    if word == "bad":
        raise FormatError(path, expected="good")
    if word == "two lines":
        raise _TwoLines(path)
    if word == "escape":
        raise Cancelled("as somebody wished")
    if word == "leak":
        return {}[word]
    if word == "bug":
        raise SimulationError("an invariant")
    if word == "hang":
        # Holds the interpreter's lock: no thread of this process could end it.
        return 3**10**10
    if word == "sleep":
        time.sleep(60)
    if word == "spin":
        while True:
            pass
    if word == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if word == "memory":
        return np.ones(1 << 33, np.uint8)
    return None
