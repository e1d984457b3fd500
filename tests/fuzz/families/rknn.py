"""RKNN containers."""

from pathlib import Path
from random import Random

from tests.formats.rk3588.rknn_writing import rknn_bytes
from tests.fuzz.driving import drive, warm_up
from tests.fuzz.mutations import change_bytes, change_json
from tests.targets.rk3588.load.rknn_cases import container

SUFFIX = ".rknn"
SHARE = 100


def seeds() -> list[bytes]:
    """A product in plans for one to three cores, and without plans."""
    return [rknn_bytes(container()), rknn_bytes(container(plan_starts=()))]


def mutate(data: bytes, rng: Random) -> bytes:
    """Change the document at the end, or the payload's tables, whose numbers are small and aligned."""
    size = int.from_bytes(data[16:24], "little")
    end = 64 + size
    if rng.random() < 0.2 and end + 8 < len(data):
        document = change_json(data[end + 8 :], rng)
        return data[:end] + len(document).to_bytes(8, "little") + document
    if rng.random() < 0.2:
        return change_bytes(data, rng)
    return data[:64] + change_bytes(data[64:end], rng)[:size].ljust(size, b"\0") + data[end:]


def prepare() -> None:
    """Have the kernels."""
    warm_up("rk3588")


def attempt(path: Path) -> object:
    """Open and run it."""
    return drive(path)
