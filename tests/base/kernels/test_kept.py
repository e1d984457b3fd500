"""The checksums of compiled kernels on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest

from npuviz.base.kernels.kept import MARK, checked
from tests.sweeps import quick


def seven_times(value: int) -> int:
    return value * 7


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Makes the kernel as a program that has just started does."""
    # numba reads its environment again when that has changed.
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    compile_: Any = numba.njit
    return lambda: checked(compile_(cache=True)(seven_times))


def times_compiled(kernel: Any) -> int:
    assert kernel(6) == 42
    return sum(kernel.stats.cache_misses.values())


def test_a_whole_kernel_is_loaded(fresh: Callable[[], Any]) -> None:
    assert times_compiled(fresh()) == 1
    assert times_compiled(fresh()) == 0


def test_kernels_of_earlier_versions_count(fresh: Callable[[], Any], tmp_path: Path) -> None:
    assert times_compiled(fresh()) == 1
    for path in tmp_path.rglob("*.nb?"):
        path.write_bytes(path.read_bytes().partition(MARK)[0])
    assert times_compiled(fresh()) == 0


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing left": lambda content: b"",
    "the end is missing": lambda content: content[: len(content) // 2],
    "the checksum is missing": lambda content: content[: content.index(MARK) // 2],
    "zeros": lambda content: bytes(len(content)),
    "one bit": lambda content: content[:200] + bytes([content[200] ^ 4]) + content[201:],
    "one bit of the code": lambda content: content[:-60] + bytes([content[-60] ^ 1]) + content[-59:],
}


@quick(every=3)
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_kernel_is_compiled_again(
    suffix: str, damage: Callable[[bytes], bytes], fresh: Callable[[], Any], tmp_path: Path
) -> None:
    assert times_compiled(fresh()) == 1
    (path,) = tmp_path.rglob(f"*.{suffix}")
    path.write_bytes(damage(path.read_bytes()))
    assert times_compiled(fresh()) == 1
    assert times_compiled(fresh()) == 0


def test_the_code_of_another_signature_is_not_taken(fresh: Callable[[], Any], tmp_path: Path) -> None:
    """Two programs that compile at once may give their files one name."""
    kernel = fresh()
    assert times_compiled(kernel) == 1
    assert kernel(1.5) == 10.5
    one, other = sorted(tmp_path.rglob("*.nbc"))
    one.write_bytes(other.read_bytes())
    again = fresh()
    assert (again(6), again(1.5)) == (42, 10.5)
    assert sum(again.stats.cache_misses.values()) == 1
