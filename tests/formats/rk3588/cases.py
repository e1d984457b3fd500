"""RK3588 reference data for tests of the formats; see the README beside the data."""

import json
from pathlib import Path
from typing import Any

import pytest

from npuviz.base.errors import FormatError
from tests.shared_data import shared_folder

DATA = shared_folder("rk3588")
DUMPS = sorted((DATA / "regcmd").glob("regcmd_*.txt"))


def dump_words(path: Path) -> list[int]:
    """The words of a dump, read without the code under test."""
    lines = path.read_text().splitlines()
    return [int(line.split()[1], 16) for line in lines if not line.startswith("#")]


def matmul_memory() -> dict[str, Any]:
    """The 4x36x16 product and its memory images."""
    return json.loads((DATA / "matmul_4x36x16_memory.json").read_text())


def check_line(error: FormatError) -> None:
    """Fails the test when the message has more than one line."""
    if "\n" in str(error):
        pytest.fail(f"more than one line: {error}")
