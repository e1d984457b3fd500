"""The kernel cache: killed compilers, and caches that are empty, read-only, damaged or shared by two.

    python -m benchmarks.soak.kernels TARGET KILLS

kills compilers and prints the result. It is a separate program, since numba chooses its cache at import.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.soak import forks
from benchmarks.soak.outcome import Outcome
from npuviz.base.kernels.entries import MODE_VARIABLE
from npuviz.base.kernels.helper import CACHE_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
LARGE_SHARE = 0.05
"""Target of the kills: it has a large kernel, which takes half a minute to compile."""
LARGE_BYTES = 600_000


def kill_compilers(target: str, kills: int) -> Outcome:
    """Kill programs while they compile a kernel into a copy of the cache; the next program must run."""
    with tempfile.TemporaryDirectory(prefix="npuviz-soak-") as name:
        cache = Path(name) / "kernels"
        shutil.copytree(os.environ[CACHE_VARIABLE], cache)
        found = subprocess.run(
            [sys.executable, "-m", "benchmarks.soak.kernels", target, str(kills)],
            env={**os.environ, CACHE_VARIABLE: str(cache), MODE_VARIABLE: "wait"},
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
    if found.returncode:
        return Outcome(
            "kill", f"{target}: kill -9 while kernels are compiled", 1, 0, "", [found.stderr[-500:]]
        )
    return Outcome(**json.loads(found.stdout.splitlines()[-1]))


def used_kernels() -> list[str]:
    """Return the index files of the kernels that this process has loaded from the cache or compiled into
    it."""
    from npuviz.base.kernels.entries import Entry

    found: list[str] = []
    for module in list(sys.modules.values()):
        for value in list(vars(module).values()) if hasattr(module, "__dict__") else ():
            if isinstance(value, Entry) and (kernel := value._kernel).overloads:  # noqa: SLF001
                found.append(kernel._cache._cache_file._index_path)  # noqa: SLF001
    return sorted(set(found))


def _killed(target: str, kills: int) -> Outcome:
    from benchmarks.soak.programs import arguments
    from npuviz.cli.main import main
    from npuviz.workbench.choosing import targets

    targets()
    outcome = Outcome("kill", f"{target}: kill -9 while kernels are compiled")
    folder = Path(tempfile.mkdtemp(prefix="npuviz-soak-", dir=os.environ[CACHE_VARIABLE]))

    def work() -> int:
        with tempfile.TemporaryDirectory(dir=folder) as into:
            code = main(["run", *arguments(target), "--json", "--record", f"{into}/run"])
        print(json.dumps(used_kernels()), flush=True)
        return code

    choose = random.Random(target)
    first = forks.run(work, folder)
    if first.code:
        outcome.count(first.error)
        return outcome
    expected, kernels = _result(first.out), json.loads(first.out.splitlines()[-1])
    seconds: dict[str, float] = {}
    while outcome.tried < kills:
        kernel = _one_of(kernels, choose)
        _forget(kernel)
        if kernel not in seconds:
            seconds[kernel] = forks.run(work, folder).seconds
            _forget(kernel)
        ended = forks.struck(work, folder, choose.uniform(0, seconds[kernel]))
        if ended.code == 0:
            continue
        after = forks.run(work, folder)
        is_good = ended.code == -9 and after.code == 0 and _result(after.out) == expected
        outcome.count("" if is_good else f"{ended.code}, then {after.code}: {after.error[-300:]}")
    outcome.figures = (
        f"{len(seconds)} kernels, {min(seconds.values()):.1f} to {max(seconds.values()):.1f} s each"
    )
    return outcome


def _one_of(kernels: list[str], choose: random.Random) -> str:
    def size(index: str) -> int:
        return sum(path.stat().st_size for path in _files(index))

    large = [each for each in kernels if size(each) > LARGE_BYTES]
    small = [each for each in kernels if each not in large]
    return choose.choice(large if large and (not small or choose.random() < LARGE_SHARE) else small)


def _files(index: str) -> list[Path]:
    path = Path(index)
    return [each for each in path.parent.iterdir() if each.name.startswith(path.name.removesuffix("nbi"))]


def _forget(index: str) -> None:
    for path in _files(index):
        path.unlink()


def _result(out: str) -> Any:
    summary = json.loads(out.splitlines()[0])
    return summary["cycles"], summary["outputs"], summary["counters"]


# --- caches as they should not be


def damage(path: Path, choose: random.Random) -> None:
    """Damage a file in one of the ways in which disks and people damage files."""
    data = bytearray(path.read_bytes())
    ways: list[Callable[[], bytes]] = [
        lambda: b"",
        lambda: bytes(data[: choose.randrange(max(1, len(data)))]),
        lambda: bytes(len(data)),
        lambda: choose.randbytes(len(data)),
        lambda: _flipped(data, choose),
    ]
    path.write_bytes(choose.choice(ways)())


def _flipped(data: bytearray, choose: random.Random) -> bytes:
    for _ in range(8):
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    return bytes(data)


if __name__ == "__main__":
    print(json.dumps(asdict(_killed(sys.argv[1], int(sys.argv[2])))))
