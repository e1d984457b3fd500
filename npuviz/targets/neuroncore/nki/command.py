"""The subcommand `npuviz nki`."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from npuviz.base.errors import UsageError
from npuviz.targets.neuroncore.nki.user_python import SHIMS

ACTIONS = ("shims", "python")
FRAMEWORK_SHIMS = SHIMS.parent / "framework_shims"
"""Holds packages that scripts import to move tensors to a device."""
_MARK = "Stand-in for"


def run(action: str, arguments: Sequence[str]) -> int:
    """Run one action; returns its exit code. Raises NpuvizError, OSError."""
    if action == "shims":
        return _shims(arguments)
    if action == "python":
        return subprocess.run([sys.executable, *arguments], env=environment(), check=False).returncode
    raise UsageError(f"nki {action[:60]}: expected {', '.join(ACTIONS)}")


def environment() -> dict[str, str]:
    """Environment variables with which Python finds the stand-ins for neuronxcc.nki and nki."""
    found = dict(os.environ)
    folders = [str(SHIMS), *{str(package.parent) for package in _framework_packages()}]
    found["PYTHONPATH"] = os.pathsep.join(filter(None, (*folders, found.get("PYTHONPATH", ""))))
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        found.setdefault(name, "1")  # products of tiles are small: threads cost more than they save
    return found


def _shims(arguments: Sequence[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise UsageError("nki shims: expected one folder; npuviz nki shims DIR")
    folder = Path(arguments[0])
    packages = [*sorted(SHIMS.iterdir()), *_framework_packages()]
    for package in packages:
        target = folder / package.name
        own = target / "__init__.py"
        if target.exists() and (
            not own.is_file() or _MARK not in own.read_text(encoding="utf-8", errors="replace")
        ):
            raise UsageError(f"{target}: exists and is not from npuviz; choose another folder")
    for package in packages:
        if package.is_dir() and package.name != "__pycache__":
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(package, folder / package.name, dirs_exist_ok=True, ignore=ignored)
    print(f"{', '.join(each.name for each in packages if each.is_dir() and each.name[0] != '_')} in {folder}")
    print(f"export PYTHONPATH={folder.resolve()}{os.pathsep}$PYTHONPATH")
    return 0


def _framework_packages() -> list[Path]:
    """Stand-ins for the packages that take torch's tensors to a device; none if one of them is installed."""
    packages = sorted(FRAMEWORK_SHIMS.glob("*/"))
    return [] if any(importlib.util.find_spec(each.name) for each in packages) else packages
