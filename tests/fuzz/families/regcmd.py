"""Register command streams of the RK3588, binary and as text."""

from pathlib import Path
from random import Random

import numpy as np

from npuviz.formats.rk3588.regcmd.area import read_regcmd
from npuviz.formats.rk3588.regcmd.dump import format_plain
from tests.fuzz.driving import drive, warm_up
from tests.fuzz.mutations import NUMBERS, change_bytes, change_text
from tests.targets.rk3588.load.rknn_cases import DATA

SUFFIX = ".regcmd"
SHARE = 300
_MOST_WORDS = 200


def seeds() -> list[bytes]:
    """Three matrix products, each as bytes and as a text."""
    found: list[bytes] = []
    for file in sorted((DATA / "regcmd").glob("*.txt"))[:3]:
        words = read_regcmd(file).words[:_MOST_WORDS]
        found += [words.tobytes(), b"#" + format_plain(words).encode()]
    return found


def mutate(data: bytes, rng: Random) -> bytes:
    """Change words: target, register or value; or bytes, or lines of the text."""
    if data[:1] == b"#":
        return b"#" + change_text(data[1:].decode(errors="replace"), rng).encode(errors="replace")
    if rng.random() < 0.2 or len(data) < 16:
        return change_bytes(data, rng)
    words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64).copy()
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(words))
        word = int(words[at])
        value = rng.choice(
            (rng.choice(NUMBERS), (word >> 16) ^ (1 << rng.randrange(32)), rng.getrandbits(32))
        )
        kind = rng.randrange(8)
        if kind < 5:
            word = word & ~(0xFFFFFFFF << 16) | (value & 0xFFFFFFFF) << 16
        elif kind == 5:
            word = word & ~0xFFFF | rng.randrange(0x1000, 0x7000, 4)
        elif kind == 6:
            word = int(words[rng.randrange(len(words))])
        else:
            word ^= 1 << rng.randrange(48, 64)
        words[at] = word % (1 << 64)
    return words.tobytes()


def prepare() -> None:
    """Have the kernels."""
    warm_up("rk3588")


def attempt(path: Path) -> object:
    """Open and run it; a text under the name that says so."""
    if path.read_bytes()[:1] == b"#":
        text = path.with_suffix(".regcmd.txt")
        text.write_bytes(path.read_bytes())
        path = text
    return drive(path)
