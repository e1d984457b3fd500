"""Write executables `cslc`, `cs_python` and `sdk_debug_shell` that run npuviz in place of the vendor's
tools."""

import os
import shlex
import sys
from pathlib import Path

from npuviz.base.errors import UsageError

PYTHON_PATH = Path(__file__).parent / "sdk"
"""Folder with the packages `cerebras.*` that host programs import."""
SETTINGS_VARIABLE = "NPUVIZ_CSL_SET"
"""Environment variable with settings of the machine: KEY=VALUE pairs with commas between them."""
FAILURES_VARIABLE = "NPUVIZ_CSL_FAILURES"
"""Environment variable with the path of a file to which each failing host program appends a line."""
_MARK = "# written by npuviz csl shims"
_NO_SHELL = """echo "sdk_debug_shell $1: only compile has a stand-in; open the compiled folder in npuviz" >&2
exit 2"""


def environment(base: dict[str, str] | None = None) -> dict[str, str]:
    """Return environment variables with which Python finds the runtime's modules."""
    found = dict(os.environ if base is None else base)
    old = found.get("PYTHONPATH", "")
    found["PYTHONPATH"] = f"{PYTHON_PATH}{os.pathsep}{old}" if old else str(PYTHON_PATH)
    return found


def write_shims(folder: Path) -> tuple[Path, ...]:
    """Write the executables into a folder, made if needed; return their paths.

    Raises UsageError when a file of that name is not one of npuviz, OSError when one cannot be written.
    """
    python = shlex.quote(sys.executable)
    path = shlex.quote(str(PYTHON_PATH))
    compiler = f'exec {python} -P -m npuviz.targets.wavelet.host.cslc "$@"'
    scripts = {
        "cslc": compiler,
        "sdk_debug_shell": f'if [ "$1" = compile ]; then shift; {compiler}; fi\n{_NO_SHELL}',
        "cs_python": f"PYTHONPATH={path}${{PYTHONPATH:+:$PYTHONPATH}} "
        f'exec {python} -P -m npuviz.targets.wavelet.host.script "$@"',
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name in scripts:
        target = folder / name
        if target.exists() and _MARK not in target.read_text(encoding="utf-8", errors="replace"):
            raise UsageError(f"{target}: exists and is not from npuviz; choose another folder")
    for name, line in scripts.items():
        target = folder / name
        target.write_text(f"#!/bin/sh\n{_MARK}\n{line}\n", encoding="utf-8")
        target.chmod(0o755)
    return tuple(folder / name for name in scripts)
